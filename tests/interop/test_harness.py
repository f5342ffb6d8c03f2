"""The harness itself."""

from fastdl._bridges import drjit

from .arrays import DRJIT_TENSORS


def test_drjit_is_measured_with_every_type_that_convert_makes():
    """One that the harness leaves out would look like a refusal of DrJit's."""
    (bridge, *_) = drjit.BRIDGES
    assert set(DRJIT_TENSORS) == bridge.of("").dtypes
