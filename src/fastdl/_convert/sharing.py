"""Host memory that other processes map: `share`, and handles in multiprocessing's own pickles.

A *segment* is an anonymous file, mapped as a whole, and its descriptor. A Tensor of uint8 owns both
(core.map_file); the Tensors that users get are on its buffer. The address of a tensor determines
whether it is in a segment, however the tensor was made: a segment keeps its address while it is in
use.

A *handle* is what the pickler of multiprocessing writes instead of the bytes: the position of the
elements in the segment, and a resource_sharer.DupFd, from which the receiver gets the descriptor.
Each descriptor has one owner:

    made by share            the function, until it calls map_file; then the segment
    in a DupFd               resource_sharer: sends and closes it, or keeps it until exit
    received in a handle     as for share; closed if the segment is already mapped

This module is loaded on first use, so that `import fastdl` does not import multiprocessing.
"""

import errno
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing import parent_process, resource_sharer, util
from multiprocessing.reduction import ForkingPickler

from fastdl._convert.asarray import asarray, sizes
from fastdl._convert.pickling import COLUMN_MAJOR, compact, is_padded
from fastdl._convert.pickling import reduce as reduce_bytes
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device
from fastdl._core.dtype import DType
from fastdl._core.errors import type_name
from fastdl._protocol.array_interface import compact_strides
from fastdl._version import __version__

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from fastdl._convert.asarray import _ArrayLike

sharer = resource_sharer._resource_sharer  # type: ignore[attr-defined]

FORM = 1  # of handles
PATIENCE = 10  # seconds for which an exiting child waits for its receivers
SPARE = 8  # descriptors that are left free: without one, no connection can be accepted
FEW = (
    "too many open files: each shared tensor needs a descriptor, and another one while it is sent; "
    "share one tensor and slice it, or raise the limit (ulimit -n)"
)


def share(x: "_ArrayLike", /) -> core.Tensor:
    """A writable copy of `x` in memory that other processes can map; `x` itself if it is shared.

    x: a fastdl.Tensor or anything that `asarray` accepts, on the host. The result is an ordinary
        Tensor. A column-major tensor stays column-major; gaps between elements are removed.

    multiprocessing (pipes, queues, pools, arguments) then passes it as a handle of a few hundred
    bytes, and also its views and any Tensor imported from its memory. The receiver gets a Tensor on
    the same memory: each process sees the writes of the others, in no guaranteed order and without
    a lock. A handle in transit keeps the memory alive. Other picklers, and copies, copy the data.

    A handle can be received once, by a process of the same multiprocessing tree. If its memory is
    not available, it arrives as an object that raises BufferError with the reason on any use. The
    memory has no name, and is freed when no process uses it. It needs one file descriptor in each
    process. See docs/processes.md. Linux and other POSIX systems.

    BufferError for memory of another device, and on Windows. OSError without a free descriptor.
    MemoryError if there is not enough memory. Other errors as for `asarray`.

    >>> x = fastdl.share(np.arange(3.0))
    >>> x.is_shared, x.tolist(), fastdl.share(x) is x
    (True, [0.0, 1.0, 2.0], True)
    """
    tensor = x if type(x) is core.Tensor else asarray(x)
    if find(tensor) is not None:
        return tensor
    if not tensor.device.is_host:
        raise BufferError(
            f"expected a tensor on the host, got {core.describe(tensor)}: share a copy, to('cpu')"
        )
    dtype, strides = tensor.dtype.__dlpack_data_type__(), None
    if tensor.is_contiguous() or tensor.is_contiguous("F"):
        data, _, _, order, _ = compact(tensor)
        if order == COLUMN_MAJOR:
            strides = compact_strides(tensor.shape[::-1])[::-1]
        memory = _new_segment(tensor.nbytes, memoryview(data))
    else:  # directly into the mapping, without another copy
        memory = _new_segment(tensor.nbytes)
        core.copy_into(tensor, memory)
    shared = core.from_memory(memory, tensor.shape, dtype, strides, padded=is_padded(tensor))
    return core.mark_copied(shared)


def empty(shape, dtype, device) -> core.Tensor:
    """fastdl.empty(..., shared=True)."""
    if Device(device) != CPU:
        raise BufferError(
            f"expected device='cpu' with shared=True, got {device!r}: processes share host memory"
        )
    numbers, shape = DType(dtype).__dlpack_data_type__(), sizes(shape)
    return core.from_memory(_new_segment(core.nbytes_of(shape, numbers)), shape, numbers)


# ---- segments -------------------------------------------------------------------------------


_segments: "dict[int, Segment]" = {}  # by address


class Segment:
    """A segment that this process has mapped. `memory()` returns its owner, or None if freed."""

    def __init__(self, memory, fd, token):
        self.start, self.end = core.span(memory)
        self.fd = fd  # the descriptor of `memory`: use it only while that is alive
        self.file = _file_of(fd)
        self.token = token  # the same in all processes
        self.memory = weakref.ref(memory, self.forget)
        _segments[self.start] = self

    def forget(self, _, segments=_segments):  # the module's own name is gone late at exit
        if segments.get(self.start) is self:  # not a new one at the same address
            del segments[self.start]


def _file_of(fd):
    """What identifies the file of a descriptor."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def find(tensor):
    """The segment that contains a tensor, and the Tensor that owns it; or None."""
    if not tensor.device.is_host:
        return None
    first, last = core.span(tensor)
    for segment in list(_segments.values()):
        if segment.start <= first and last <= segment.end:
            memory = segment.memory()
            if memory is not None:
                return segment, memory
    return None


core.install_sharing(find)


def _new_segment(nbytes, data=None):
    """A Tensor that owns a new segment of at least `nbytes` bytes, with zeros or `data`."""
    size = max(nbytes, 1)  # zero bytes cannot be mapped
    try:
        fd = _new_file(size)
        try:
            written = 0
            while data is not None and written < nbytes:  # twice as fast as writing to the mapping
                written += os.pwrite(fd, data[written:], written)
        except BaseException:
            os.close(fd)
            raise
        memory = core.map_file(fd, size)  # which owns the descriptor from here on
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise OSError(errno.EMFILE, FEW) from None
        if error.errno in (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EINVAL):
            raise MemoryError(f"cannot allocate {size} bytes of shared memory") from error
        raise
    Segment(memory, fd, os.urandom(16))
    return memory


def _new_file(size):
    """The descriptor of a new anonymous file. Where the system has seals, its size is fixed:
    otherwise a process could be killed by reading memory that another one has truncated."""
    if sys.platform == "win32":
        raise BufferError(
            "shared memory is not supported on Windows: use multiprocessing.shared_memory, and "
            "fastdl.asarray(memory.buf)"
        )
    fd = _anonymous_file()
    try:
        _leave_some(fd)
        os.ftruncate(fd, size)
        if _has_seals():
            import fcntl

            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _has_seals():
    return hasattr(os, "memfd_create")


def _anonymous_file():
    if not _has_seals():
        import tempfile

        fd, path = tempfile.mkstemp(prefix="fastdl-")
        os.unlink(path)
        return fd
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("fastdl", flags | 8)  # MFD_NOEXEC_SEAL, required by some systems
    except OSError as error:
        if error.errno != errno.EINVAL:  # Linux before 6.3
            raise
        return os.memfd_create("fastdl", flags)


def _leave_some(fd):
    """EMFILE if `fd`, the lowest free descriptor, is among the last SPARE of this process."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and fd >= limit - SPARE:
        raise OSError(errno.EMFILE, FEW)


# ---- handles --------------------------------------------------------------------------------


def reduce(tensor):
    """The reducer of Tensor in the pickler of multiprocessing."""
    found = find(tensor)
    if found is None:
        return reduce_bytes(tensor, 0)  # the pickler's own protocol
    segment, memory = found
    try:
        _start_sharer()
        fd = os.dup(segment.fd)
        try:
            _leave_some(fd)
            if _file_of(fd) != segment.file:  # closed, and opened for another file since
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            descriptor = resource_sharer.DupFd(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise OSError(errno.EMFILE, FEW) from None
        if error.errno == errno.EBADF:
            raise BufferError(
                f"the file descriptor of the shared memory, {segment.fd}, was closed by other code "
                f"in this process, so the memory cannot be sent: share a copy, or leave it open"
            ) from error
        raise
    del memory  # not before: it owns the descriptor
    _note(descriptor)
    return receive, (
        *(FORM, __version__, descriptor, segment.token, segment.end - segment.start),
        *(tensor.shape, tensor.dtype.__dlpack_data_type__(), tensor.strides),
        *(tensor.data_ptr - segment.start, is_padded(tensor), tensor.readonly),
    )


ForkingPickler.register(core.Tensor, reduce)


def receive(*handle):
    """The Tensor that a handle describes. Never raises: the workers of a pool do not catch
    exceptions here, and the pool would wait forever."""
    try:
        form, release = handle[:2]
        if form != FORM:
            return LostTensor(
                f"it was sent by fastdl {release}, and this is fastdl {__version__}, which does "
                f"not know that form: use one release in all processes"
            )
        return _received(*handle[2:])
    except Exception as error:
        return LostTensor(f"{error}" if isinstance(error, ValueError) else _reason(error))


receive.__module__, receive.__qualname__ = "fastdl", "_receive"


def _reason(error):
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE or "ancdata" in str(error):  # received without the descriptor
        return f"its receiver had no file descriptor for it: {FEW}"
    if number == errno.ENOMEM:
        return f"its receiver could not map it: {error}"
    found = type_name(error)
    if isinstance(error, EOFError):
        found = "its sender does not have it any more"
    elif str(error):
        found = f"{found}: {error}"
    return (
        f"its memory is not available ({found}): a handle can be received once, while its sender "
        f"runs, by a process of the same multiprocessing tree"
    )


def _received(descriptor, token, size, shape, dtype, strides, offset, padded, readonly):
    fd = descriptor.detach()
    try:
        memory = _known(token)
        if memory is None:
            _check(fd, size)
    except BaseException:
        os.close(fd)
        raise
    if memory is None:
        memory = core.map_file(fd, size)
        Segment(memory, fd, token)
    else:
        os.close(fd)
    source = memoryview(memory).toreadonly() if readonly else memory
    return core.from_memory(source, shape, dtype, strides, offset, padded=padded)


def _known(token):
    """The owner of the segment with this token, if this process has mapped it already."""
    for segment in list(_segments.values()):
        if segment.token == token:
            memory = segment.memory()
            if memory is not None:
                return memory
    return None


def _check(fd, size):
    """ValueError unless `fd` is a file of this size, sealed where the system has seals."""
    import stat

    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_size != size or size < 1:
        raise ValueError(
            f"expected a file of {size} bytes, got one of mode {stat.filemode(found.st_mode)} and "
            f"{found.st_size} bytes"
        )
    if _has_seals():
        import fcntl

        wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & wanted != wanted:
            raise ValueError("expected a file that is sealed against shrinking and growing")


class LostTensor:
    """Replaces a Tensor whose memory is not available: any use raises BufferError with the reason.
    It can be pickled."""

    _reason: str

    def __init__(self, reason):
        object.__setattr__(self, "_reason", reason)

    def __repr__(self):
        return f"<fastdl.Tensor that did not arrive: {self._reason}>"

    def __reduce__(self):
        return lost, (self._reason,)

    def _fail(self, *_, **__):
        raise BufferError(f"a shared tensor did not arrive: {self._reason}")

    __getattr__ = __setattr__ = __delattr__ = _fail
    __len__ = __iter__ = __contains__ = __getitem__ = __setitem__ = __delitem__ = _fail
    __bool__ = __int__ = __float__ = __complex__ = __index__ = __bytes__ = __round__ = _fail
    __dlpack__ = __dlpack_device__ = __dlpack_info__ = __array__ = __buffer__ = _fail
    __copy__ = __deepcopy__ = __format__ = _fail
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __invert__ = _fail
    __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = __mod__ = _fail
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _fail
    __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = _fail
    __hash__ = object.__hash__
    __array_interface__ = property(_fail)
    __cuda_array_interface__ = property(_fail)


def lost(reason):
    """For pickles of LostTensor."""
    return LostTensor(reason)


lost.__module__, lost.__qualname__ = "fastdl", "_lost"


# ---- the resource sharer, and the end of a process ------------------------------------------

_sent: set[int] = set()  # keys of this process's handles in its resource sharer
_sockets: set[str] = set()  # the addresses on which it listens, removed at exit


def _start_sharer():
    """Starts the resource sharer if it is not running. By itself it would take itself for running
    after its thread could not start, and the receivers of later handles would wait forever."""
    with sharer._lock:
        if sharer._address is not None:
            return
        try:
            sharer._start()
        except BaseException as error:
            if sharer._listener is not None:
                sharer._listener.close()
            sharer._listener = sharer._address = None
            if isinstance(error, OSError) and error.errno is None:  # of Python's, about the path
                raise OSError(
                    "multiprocessing cannot make a socket in the folder for temporary files, whose "
                    "path is too long: set TMPDIR to a shorter one"
                ) from error
            raise


def _note(descriptor):
    """Makes `_wait` wait until `descriptor` has been received."""
    for key in list(_sent):
        if key not in sharer._cache:  # received
            _sent.discard(key)
    _sent.add(descriptor._id[1])


def _keep_socket():
    """Runs first when a process exits: its queues may still have to write handles, and its children
    to receive them, but multiprocessing removes the socket before that."""
    if parent_process() is not None and (_segments or _sent):
        _start_sharer()  # now, since a queue that starts it later cannot keep its socket
    listener = getattr(sharer._listener, "_listener", None)
    unlink = getattr(listener, "_unlink", None)
    if unlink is not None:
        unlink.cancel()
        _sockets.add(sharer._address)


def _wait():
    """Runs last when a process exits. A child waits for its receivers, since the descriptors in its
    handles would be closed, until its parent has exited or PATIENCE is over. The main process has
    joined its children before."""
    parent = parent_process()
    if parent is not None and _sent:
        _wait_for_receivers(parent)
        _finish_transfer()
    for path in _sockets:
        with suppress(OSError):
            os.unlink(path)


def _wait_for_receivers(parent):
    cache, end, pause = sharer._cache, time.monotonic() + PATIENCE, 0.0005
    while _sent.intersection(list(cache)) and time.monotonic() < end and parent.is_alive():
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _finish_transfer():
    """Waits up to a second for a transfer that has begun. In another thread, since the sharer does
    not answer while a receiver that has stopped keeps it busy."""

    def stop():
        with suppress(OSError, EOFError):
            resource_sharer.stop(timeout=1)

    thread = threading.Thread(target=stop, daemon=True)
    with suppress(RuntimeError):  # no thread can start
        thread.start()
        thread.join(1)


def _prepare(_=None):
    """Runs now, and in each child after a fork, which clears these finalizers. The finalizers of
    queues have priorities 10 and -5, that of the socket 0."""
    _sent.clear()
    _sockets.clear()
    util.Finalize(None, _keep_socket, exitpriority=20)
    util.Finalize(None, _wait, exitpriority=-10)


_prepare()
util.register_after_fork(_wait, _prepare)
# multiprocessing does this only in its own children. Others would send the address of their
# parent's sharer, with a key that refers to other memory there.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=sharer._afterfork)
