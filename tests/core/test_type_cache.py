# SPDX-License-Identifier: Apache-2.0
"""What is remembered of types: of those that matter, while they live, as they are now."""

import sysconfig
from itertools import combinations_with_replacement

import pytest

import fastdl
from fastdl._core import exchange
from fastdl._protocol import consumer
from tests.support.build import extension
from tests.support.headers import ALONE, INSTALLED, every_world
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Lending, Producer, Tabled, hostile, new_table
from tests.support.threads import together


def table():
    return hostile.table_capsule(new_table(lends=True))


def by_header(api):
    """Whether a tensor of `kind` comes through the table; raises TypeError if it is none."""

    def goes_by_table(kind):
        given = Given()
        view = api.borrow(kind(given, mode="give"))
        (given.assert_released if view["owned"] else given.assert_alive)()
        return not view["owned"]

    return goes_by_table


def by_python(enter):
    def goes_by_table(kind):
        before, given = hostile.table_calls(), Given()
        enter(kind(given, mode="give"))
        given.assert_released()
        return hostile.table_calls() > before

    return goes_by_table


WAYS = {
    "compiled": by_python(fastdl.from_dlpack),
    "python": by_python(consumer.from_dlpack),
    **{name: by_header(api) for name, api in {**ALONE, **INSTALLED}.items()},
}
BLIND = "alone, limited API, C++"  # cannot see that a type has changed
everywhere = pytest.mark.parametrize("goes_by_table", WAYS.values(), ids=WAYS)
with_sight = pytest.mark.parametrize(
    "goes_by_table",
    [way for name, way in WAYS.items() if name != BLIND],
    ids=[name for name in WAYS if name != BLIND],
)


# ---- types that die -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("base", ["Producer", "Lending", "Nothing", "Mock"])
def test_types_die_and_leave_room(base):
    """However a type was met, nothing keeps it; and the types that stay are found as before."""
    run_isolated(f"""
        import gc, weakref
        from unittest.mock import Mock
        import numpy as np
        import fastdl
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        class Nothing:
            def __init__(self, given):
                pass
        def enter(call, kind):
            source = kind() if kind.__mro__[1] is Mock else kind(Given())
            try:
                call(source)
            except TypeError:
                assert {base!r} in ("Nothing", "Mock")
            return type(source)  # each Mock() has a class of its own
        class Staying(Lending):
            pass
        staying, array = Staying(Given()), np.arange(3.0)
        for api in (*ALONE.values(), *INSTALLED.values()):
            mortal = []
            for _ in range(2000):
                kind = type("Mortal", ({base},), {{}})
                for call in (api.borrow, fastdl.from_dlpack, api.borrow):
                    mortal.append(weakref.ref(enter(call, kind)))
                api.borrow(staying)
                assert api.record(Staying) is not None
            del kind
            gc.collect()
            alive = sum(ref() is not None for ref in mortal)
            assert alive == 0, alive
            for _ in range(2):
                api.borrow(array)
                assert api.record(np.ndarray) is not None
                assert fastdl.from_dlpack(array).shape == (3,)
    """)


@pytest.mark.slow
def test_a_type_at_the_address_of_a_dead_one():
    run_isolated("""
        import gc, os, sys
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        for api in (*ALONE.values(), *INSTALLED.values()):
            seen, again = set(), 0
            for i in range(400):
                base = (Lending, Producer)[i % 2]
                kind = type("Mortal", (base,), {})
                again += id(kind) in seen
                seen.add(id(kind))
                assert api.borrow(kind(Given()))["owned"] is (base is Producer)
                del kind
                gc.collect(1 if i % 7 else 2)
            # Else nothing was tested; a sanitizer keeps addresses from being used again.
            assert again > 20 or os.environ.get("FASTDL_SANITIZE"), again
    """)


# ---- what takes a place ---------------------------------------------------------------------


@every_world
@pytest.mark.parametrize("kind", [list, dict, object, type("Nothing", (), {})])
def test_what_is_no_tensor_takes_no_place(api, kind):
    for _ in range(2):
        with pytest.raises(TypeError):
            api.borrow(kind())
        assert not exchange.is_producer(kind())
        assert api.record(kind) is None


@every_world
def test_a_proxy_takes_no_place(api):
    proxy = type("Proxy", (), {})()
    source = Producer(Given())
    proxy.__dlpack__, proxy.__dlpack_device__ = source.__dlpack__, source.__dlpack_device__
    assert api.borrow(proxy)["shape"] == (2, 3)
    assert api.record(type(proxy)) is None


def test_the_type_that_comes_has_a_place():
    """However many are alive."""
    run_isolated("""
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        for api in (*ALONE.values(), *INSTALLED.values()):
            for base in (Lending, Producer):
                kinds = [type("Kind", (base,), {}) for _ in range(1500)]
                for _ in range(2):
                    for kind in kinds:
                        assert api.borrow(kind(Given()))["shape"] == (2, 3)
                        assert api.record(kind) is not None
    """)


def test_types_with_dlpack_alone_drive_out_none_with_a_table():
    run_isolated("""
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        for api in (*ALONE.values(), *INSTALLED.values()):
            tables = [type("Kind", (Lending,), {}) for _ in range(12)]
            for kind in tables:
                api.borrow(kind(Given()))
            before = [api.record(kind) for kind in tables]
            others = [type("Kind", (Producer,), {}) for _ in range(3000)]
            for kind in others:
                api.borrow(kind(Given()))
            assert [api.record(kind) for kind in tables] == before
            assert None not in before
    """)


@every_world
def test_types_in_use_are_described_once(api):
    class Counting:
        def __get__(self, instance, owner):
            described.append(owner)
            return capsule

    described, capsule = [], table()
    kinds = [type("Kind", (Tabled,), {"__dlpack_c_exchange_api__": Counting()}) for _ in range(12)]
    sources = [kind(Given()) for kind in kinds]
    for _ in range(3):
        for source in sources:
            api.borrow(source)
    assert described == kinds


def test_what_is_known_does_not_grow_with_types():
    run_isolated("""
        import gc
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        def known(api, times):
            for _ in range(times):
                for base in (Lending, Producer):
                    api.borrow(type("Mortal", (base,), {})(Given()))
            gc.collect()
            return api.record_count()
        for api in (*ALONE.values(), *INSTALLED.values()):
            before = known(api, 20)
            assert known(api, 500) == before > 0
    """)


@every_world
def test_threads_that_drive_out_the_types_of_each_other(api):
    """Without a GIL, places are read while they are written: none may be taken for another's."""
    shared = [(type("Kind", (base,), {}), base) for base in (Lending, Producer) * 20]

    def work(i):
        own = [(type("Kind", (base,), {}), base) for base in (Lending, Producer)]
        for kind, base in (*own, shared[i % 40], shared[i * 7 % 40]):
            assert api.borrow(kind(Given()))["owned"] is (base is Producer)

    together(*[work] * 4, collect=False)


def test_a_slot_is_read_whole():
    """Without a GIL, another type can take it between any two loads, and the first come back."""
    slots = extension("slots")
    states, first = slots.write()
    loads, found = slots.read(b"")
    assert found == 0
    for moments in combinations_with_replacement(range(first, states), loads):
        assert slots.read(bytes(moments))[1] in (0, None), moments


# ---- types that change ----------------------------------------------------------------------


class Plain:
    """Becomes a tensor later."""

    mode = "give"

    def __init__(self, managed, mode):
        self.managed = managed

    def export(self, **keywords):
        return self.managed.capsule()

    def device(self):
        return (1, 0)


@pytest.fixture(params=["class", "base"])
def changing(request):
    """A class of a kind, and the one that is changed: itself or its base."""

    def make(base, **members):
        changed = type("Changed", (base,), members)
        return (
            (changed, changed) if request.param == "class" else (type("K", (changed,), {}), changed)
        )

    return make


@everywhere
def test_dlpack_comes_and_goes(goes_by_table, changing):
    kind, changed = changing(Plain)
    for _ in range(2):
        with pytest.raises(TypeError):
            goes_by_table(kind)
        changed.__dlpack__, changed.__dlpack_device__ = Plain.export, Plain.device
        assert goes_by_table(kind) is False
        changed.__dlpack__ = None
        with pytest.raises(TypeError):
            goes_by_table(kind)
        changed.__dlpack__ = Plain.export
        assert goes_by_table(kind) is False
        del changed.__dlpack__


@with_sight
def test_a_table_comes_and_goes(goes_by_table, changing):
    kind, changed = changing(Producer)
    for _ in range(2):
        assert goes_by_table(kind) is False
        changed.__dlpack_c_exchange_api__ = table()
        assert goes_by_table(kind) is True
        changed.__dlpack_c_exchange_api__ = None
        assert goes_by_table(kind) is False
        changed.__dlpack_c_exchange_api__ = table()
        assert goes_by_table(kind) is True
        del changed.__dlpack_c_exchange_api__


@everywhere
def test_a_table_for_what_was_no_tensor(goes_by_table, changing):
    kind, changed = changing(Plain)
    with pytest.raises(TypeError):
        goes_by_table(kind)
    changed.__dlpack_c_exchange_api__ = table()
    assert goes_by_table(kind) is True


@with_sight
def test_an_override_comes_and_goes(goes_by_table):
    base = type("Base", (Lending,), {})
    kind = type("Kind", (base,), {})
    assert goes_by_table(kind) is True
    kind.__dlpack__, kind.__dlpack_device__ = Plain.export, Plain.device
    assert goes_by_table(kind) is False
    del kind.__dlpack__
    assert goes_by_table(kind) is True


@with_sight
def test_the_bases_change(goes_by_table):
    first, second = type("First", (Producer,), {}), type("Second", (Producer,), {})
    second.__dlpack_c_exchange_api__ = table()
    kind = type("Kind", (first,), {})
    assert goes_by_table(kind) is False
    kind.__bases__ = (second,)
    assert goes_by_table(kind) is True
    kind.__bases__ = (first,)
    assert goes_by_table(kind) is False


@with_sight
def test_a_type_that_changes_more_often_than_cpython_counts(goes_by_table):
    """3.13 numbers a type a thousand times."""
    kind = type("Restless", (Producer,), {})
    for i in range(1500):
        kind.number = i
        if i % 3 == 0:
            kind.__dlpack_c_exchange_api__ = table()
        elif i % 3 == 1:
            kind.__dlpack_c_exchange_api__ = None
        if i % 10 == 0 or i > 1450:
            assert goes_by_table(kind) is (i % 3 == 0)


@every_world
def test_a_type_that_changes_whenever_it_is_described(api):
    class Restless:
        count = 0

        def __get__(self, instance, owner):
            Restless.count += 1
            owner.number = Restless.count
            return capsule

    capsule = table()
    kind = type("Kind", (Producer,), {"__dlpack_c_exchange_api__": Restless()})
    for _ in range(3):
        assert api.borrow(kind(Given(), mode="give"))["owned"] is False


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="has no limited API")
def test_what_a_build_alone_under_the_limited_api_does_not_see():
    """As its header says. The table is used on, which is valid."""
    api = ALONE[BLIND]
    kind = type("Kind", (Producer,), {"__dlpack_c_exchange_api__": table()})
    assert api.borrow(kind(Given(), mode="give"))["owned"] is False
    kind.__dlpack_c_exchange_api__ = None
    assert api.borrow(kind(Given(), mode="give"))["owned"] is False


# ---- metaclasses ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["__mro__", "__dict__"])
def test_a_metaclass_whose_answers_die(name):
    """What is borrowed is borrowed from the type itself, not from what a property made up."""
    run_isolated(f"""
        import gc
        import numpy as np
        import fastdl
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, Producer
        class Meta(type):
            @property
            def {name}(cls):
                mine = type("Gone", (Lending,), {{"__module__": "torch", "__qualname__": "Tensor"}})
                return (mine, object) if {name!r} == "__mro__" else dict(vars(Lending))
        for base in (Producer, np.ndarray):
            for api in (*ALONE.values(), *INSTALLED.values()):
                for _ in range(30):
                    kind = Meta("Kind", (base,), {{}})
                    def new():
                        return kind(Given()) if base is Producer else np.zeros(3).view(kind)
                    for _ in range(2):
                        assert api.borrow(new())["shape"] in [(2, 3), (3,)]
                        gc.collect()
                        assert fastdl.from_dlpack(new()).ndim
            fastdl.register_exchange_api(kind, fastdl.exchange_api(Lending))
            fastdl.exchange_api(kind)
    """)
