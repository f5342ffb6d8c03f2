# SPDX-License-Identifier: Apache-2.0
# %% Strides are ignored, so other values are read
import decord
import numpy as np

source = np.arange(6.0, dtype=np.float32)[::2]
assert decord.nd.from_dlpack(source.__dlpack__()).asnumpy().tolist() == [0, 1, 2]
