# SPDX-License-Identifier: Apache-2.0
# %% A Fortran-ordered array is sent in memory order
import numpy as np
from mpi4py import MPI

source, room = np.array([[0, 1, 2], [3, 4, 5]], order="F"), np.zeros((2, 3), int)
MPI.COMM_SELF.Sendrecv(source, 0, recvbuf=room, source=0)
assert room.tolist() == [[0, 3, 1], [4, 2, 5]]
