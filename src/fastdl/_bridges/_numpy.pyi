# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import CapsuleType

from fastdl._core.tensor import Tensor

BRIDGE: tuple[CapsuleType, type[np.ndarray[Any, Any]], CapsuleType]
MAKER: CapsuleType

def array(tensor: Tensor, descriptor: np.dtype[Any], lanes: int) -> npt.NDArray[Any]: ...
