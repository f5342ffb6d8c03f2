"""fastdl.share: memory that other processes map, and handles of it. With real processes."""

import copy
import errno
import gc
import io
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._convert import sharing
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.support import receivers
from tests.support.ctypes_dlpack import SUBBYTE_PADDED, capsule_of
from tests.support.isolate import run_isolated
from tests.support.memory import filled

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no descriptors to hand over"),
    # The thread of the resource sharer is one: see docs/processes.md.
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]

METHODS = ["fork", "spawn", "forkserver"]
LONG = 120  # seconds: what takes so long hangs


@pytest.fixture(params=METHODS)
def ctx(request):
    return multiprocessing.get_context(request.param)


@pytest.fixture
def pool(ctx):
    with ctx.Pool(1) as pool:
        yield pool


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    resource_sharer.stop(timeout=LONG)


def descriptors():
    """How many files this process has open, without those of the thread that sends: it is ended."""
    resource_sharer.stop(timeout=LONG)
    gc.collect()
    return len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))


def through_a_pipe(x):
    """What this process receives of what it sends."""
    first, second = multiprocessing.Pipe()
    with first, second:
        first.send(x)
        return second.recv()


def handle_of(tensor):
    """The arguments of `receive`, as the pickler has them."""
    _, arguments = sharing.reduce(tensor)
    return list(arguments)


def run(script, *words, prefix=()):
    """A script in a process of its own, which may crash; its output."""
    return run_python("-c", textwrap.dedent(script), *words, prefix=prefix).stdout


def run_python(*arguments, prefix=()):
    done = subprocess.run(
        [*prefix, sys.executable, *arguments], capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == 0, done.stderr
    return done


# ---- sharing --------------------------------------------------------------------------------

NAMES = [row[0] for row in dtype_facts()]

LAYOUTS = {
    "row-major": lambda a: a,
    "column-major": np.asfortranarray,
    "gaps": lambda a: a[:, ::2],
    "reversed": lambda a: a[::-1],
    "broadcast": lambda a: np.broadcast_to(a, (2, 4, 6)),
    "empty": lambda a: a[:0],
    "scalar": lambda a: a[1, 1],
}


@pytest.mark.parametrize("dtype", [*NAMES, "float32x4", "float4_e2m1fnx2", (99, 24, 1)])
def test_a_copy_of_every_type(dtype):
    tensor = filled(dtype)
    shared = fastdl.share(tensor)
    assert shared.is_shared and not tensor.is_shared
    assert receivers.facts(shared) == receivers.facts(tensor)
    assert shared.is_copied and shared.data_ptr % 4096 == 0
    assert receivers.facts(through_a_pipe(shared)) == receivers.facts(tensor)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_of_every_layout(layout):
    array = np.asarray(LAYOUTS[layout](np.arange(24.0).reshape(4, 6)))
    shared = fastdl.share(array)
    assert shared.is_shared and not shared.readonly
    assert shared.shape == array.shape and shared.tolist() == array.tolist()
    assert shared.is_contiguous("F" if layout == "column-major" else "C")
    shared.numpy()[...] = -1
    assert -1 not in array
    assert through_a_pipe(shared).tolist() == shared.tolist()


def test_of_what_other_libraries_made():
    assert fastdl.share(bytearray(b"abc")).tolist() == [97, 98, 99]
    shared = fastdl.share(b"abc")
    assert not shared.readonly  # a copy
    with pytest.raises(TypeError):
        fastdl.share("abc")


def test_what_is_there_is_not_copied():
    shared = fastdl.share(np.arange(6.0))
    for same in (shared, shared[1:3], shared[::-2], shared.reshape(2, 3).T):
        assert same.is_shared and fastdl.share(same) is same
    array = shared.numpy()
    again = fastdl.share(array[2:])
    assert again.data_ptr == shared.data_ptr + 16


@pytest.mark.parametrize("dtype", ["float32", "int4", "bool", "complex128", "float32x4"])
@pytest.mark.parametrize("shape", [(), 3, (2, 3), (0, 4)])
def test_empty(shape, dtype):
    plain, shared = fastdl.empty(shape, dtype), fastdl.empty(shape, dtype, shared=True)
    assert shared.is_shared and not plain.is_shared
    assert (shared.shape, shared.dtype, shared.strides) == (plain.shape, plain.dtype, plain.strides)
    assert not any(core.read_bytes(shared))
    assert not fastdl.empty(shape, dtype, shared=False).is_shared


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((-1,), ValueError),
        (("a",), TypeError),
        ((2**62, "float64"), MemoryError),
        ((2**60, "uint8"), MemoryError),
        ((3, "float33"), ValueError),
        ((3, "float32", "cuda"), BufferError),
    ],
)
def test_what_cannot_be_allocated(arguments, error):
    before = descriptors()
    with pytest.raises(error):
        fastdl.empty(*arguments, shared=True)
    assert descriptors() == before


def test_device_memory_is_not_shared():
    tensor = fastdl.from_dlpack(capsule_of((3,), device=(2, 0)))
    assert not tensor.is_shared
    with pytest.raises(BufferError, match=r"on the host.*to\('cpu'\)"):
        fastdl.share(tensor)


OTHER_LIBRARIES = """
    import fastdl, jax, numpy as np, torch
    from tests.test_sharing import through_a_pipe

    shared = fastdl.share(np.arange(6, dtype=np.float32))
    x = fastdl.convert(shared, torch.Tensor, copy=False)
    for back in (x, x[2:], x.reshape(2, 3).T):
        assert fastdl.from_dlpack(back).is_shared and fastdl.asarray(back).is_shared
    x[0] = 7
    assert shared.tolist()[0] == 7
    y = fastdl.convert(shared, jax.Array)
    assert fastdl.from_dlpack(y).is_shared == (fastdl.from_dlpack(y).data_ptr == shared.data_ptr)
    received = through_a_pipe(fastdl.from_dlpack(x[2:]))
    assert received.is_shared and received.tolist() == [2, 3, 4, 5]
    # torch's own way.
    plain = fastdl.from_dlpack(np.arange(3, dtype=np.float32))
    y = fastdl.convert(plain, torch.Tensor).share_memory_()
    assert y.is_shared() and y.tolist() == [0, 1, 2]
    print("done")
"""


@pytest.mark.library("torch", "jax")
def test_other_libraries_keep_it():
    """In a process of its own: JAX has threads, and others here fork."""
    assert "done" in run(OTHER_LIBRARIES)


def test_windows_is_told_what_to_use(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BufferError, match="multiprocessing.shared_memory"):
        fastdl.share(np.zeros(3))


# ---- descriptors ----------------------------------------------------------------------------


def test_a_segment_has_one_descriptor_and_views_none():
    before = descriptors()
    shared = [fastdl.share(np.arange(4.0)) for _ in range(5)]
    assert descriptors() == before + 5
    views = [shared[0][i:] for i in range(4)] + [fastdl.from_dlpack(shared[1].numpy())]
    assert descriptors() == before + 5
    del shared
    assert descriptors() == before + 2  # those of the views
    del views
    assert descriptors() == before
    assert not sharing._segments


def test_what_comes_back_is_what_was_sent():
    """The same mapping, and no other descriptor, however often it comes."""
    shared = fastdl.share(np.arange(8.0))
    through_a_pipe(shared)
    before = descriptors()
    received = [through_a_pipe(shared[i:]) for i in range(8)]
    assert [one.data_ptr for one in received] == [shared.data_ptr + 8 * i for i in range(8)]
    assert descriptors() == before
    del shared
    assert received[0].is_shared and received[0].tolist() == list(range(8))


def test_a_handle_on_its_way_keeps_the_memory():
    first, second = multiprocessing.Pipe()
    with first, second:
        first.send(fastdl.share(np.arange(3.0)))  # which is gone at once, here
        gc.collect()
        assert not sharing._segments
        assert second.recv().tolist() == [0, 1, 2]


LIMITED = """
    import errno, multiprocessing, os, resource
    import numpy as np
    import fastdl

    first, second = multiprocessing.Pipe()
    first.send(fastdl.share(np.zeros(1)))
    second.recv()  # the thread that sends is there
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept, told = [], []
    try:
        while True:
            kept.append(fastdl.share(np.arange(3.0)))
    except OSError as error:
        assert error.errno == errno.EMFILE
        told.append(str(error))
    assert 30 < len(kept) < 64
    free = []
    try:  # some are left for the connections over which handles go
        while True:
            free.append(os.dup(0))
    except OSError:
        assert len(free) >= 8, free
    for fd in free:
        os.close(fd)
    try:  # no descriptor is left for a handle
        first.send(kept[0])
    except OSError as error:
        told.append(str(error))
    kept[10:] = []
    views = [kept[0][i % 3:] for i in range(500)]
    for i in range(500):  # one of them at a time
        first.send(views[i])
        assert second.recv().tolist() == [0, 1, 2][i % 3:]
    try:  # all at once: each handle has a descriptor
        first.send(views)
    except OSError as error:
        told.append(str(error))
    assert len(told) == 3 and all("slice it" in text and "ulimit -n" in text for text in told), told
    print("done")
"""


def test_few_descriptors():
    """Nothing hangs, and errors say what to do."""
    assert "done" in run(LIMITED)


EXHAUSTED = """
    import os, resource
    from multiprocessing.reduction import ForkingPickler
    import numpy as np
    import fastdl

    shared = fastdl.share(np.arange(3.0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    for do in (lambda: taken.append(os.dup(1)), lambda: fastdl.share(np.arange(3.0)),
               lambda: ForkingPickler.dumps(shared)):
        try:
            while True:
                do()
        except OSError as error:
            print("slice it" in str(error))
"""


def test_no_descriptor_at_all():
    """Whoever took them."""
    assert run(EXHAUSTED) == "False\nTrue\nTrue\n"


SMALL_SHM = """
    import os, numpy as np, fastdl
    assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 1 << 20
    x = fastdl.share(np.ones(1 << 24, np.uint8))
    assert int(x.numpy().sum()) == 1 << 24 and not os.listdir("/dev/shm")
    print("done")
"""


def test_a_small_dev_shm():
    """As in a container: nothing is there, and its size is no limit."""
    prefix = ["unshare", "--mount", "sh", "-c"]
    prefix += ['mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"']
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    assert "done" in run(SMALL_SHM, prefix=prefix)


UNSEALED = """
    import os
    for name in [name for name in vars(os) if name == "memfd_create" or name.startswith("MFD_")]:
        delattr(os, name)
    import multiprocessing, numpy as np, fastdl
    from tests.support.receivers import add_one, made

    if __name__ == "__main__":
        shared = fastdl.share(np.arange(3.0))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(add_one, [shared]).get(60)
            assert pool.apply_async(made, [5]).get(60).tolist() == [5] * 4
        assert shared.tolist() == [1, 2, 3]
        print("done")
"""


def test_a_system_without_memfd():
    """As macOS is: the memory is a temporary file that has no name any more."""
    assert "done" in run(UNSEALED)


# ---- from process to process ----------------------------------------------------------------


def test_arguments_and_results_of_a_pool(pool):
    shared = fastdl.share(np.arange(6, dtype=np.int32))
    assert pool.apply_async(receivers.add_one, [shared[::2]]).get(LONG)
    assert shared.tolist() == [1, 1, 3, 3, 5, 5]
    result = pool.apply_async(receivers.second_half, [shared]).get(LONG)
    assert result.data_ptr == shared.data_ptr + 12  # the same mapping
    results = pool.map_async(receivers.made, range(5)).get(LONG)
    assert all(result.is_shared for result in results)
    assert [result.tolist() for result in results] == [[n] * 4 for n in range(5)]


def test_every_type_and_layout_arrives(pool):
    cases = [fastdl.share(filled(dtype)) for dtype in [*NAMES, "float32x4", (99, 24, 1)]]
    array = np.arange(24.0).reshape(4, 6)
    cases += [fastdl.share(view(array)) for view in LAYOUTS.values()]
    shared = fastdl.share(array)
    cases += [shared[:, ::2], shared[::-1, 1:], shared.T, shared[2:2], shared.as_readonly()]
    padded = fastdl.from_dlpack(np.arange(5).astype(ml_dtypes.int4))
    lanes = capsule_of((2,), fastdl.DType("int4x3"), flags=SUBBYTE_PADDED, data=bytearray(range(4)))
    cases += [fastdl.share(padded), fastdl.share(padded)[1:3], fastdl.share(lanes)]
    found = pool.map_async(receivers.shared_facts, cases).get(LONG)
    assert found == [receivers.facts(case) for case in cases]


def test_a_pipe_and_an_argument_of_a_process(ctx):
    shared = fastdl.share(np.zeros(3))
    here, there = ctx.Pipe()
    process = ctx.Process(target=receivers.add_one_and_answer, args=(there,))
    process.start()
    here.send(shared)
    assert here.recv()
    process.join(LONG)
    assert process.exitcode == 0
    process = ctx.Process(target=receivers.add_one, args=(shared,))
    process.start()
    process.join(LONG)
    assert process.exitcode == 0 and shared.tolist() == [2, 2, 2]


def test_an_executor(ctx):
    shared = fastdl.share(np.zeros(3))
    with ProcessPoolExecutor(1, mp_context=ctx) as executor:
        assert executor.submit(receivers.add_one, shared).result(LONG)
        assert executor.submit(receivers.made, 4).result(LONG).is_shared
    assert shared.tolist() == [1, 1, 1]


def test_a_queue_whose_writer_ends_at_once(ctx):
    """What was put arrives, as other objects do: the writer waits until it has been received."""
    queue = ctx.Queue()
    processes = [ctx.Process(target=receivers.put_made, args=(queue, n)) for n in range(3)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=LONG) for _ in processes]
    assert sorted(one.tolist()[0] for one in found) == [0, 1, 2]
    assert all(one.is_shared for one in found)
    for process in processes:
        process.join(LONG)
        assert process.exitcode == 0
    queue.close()
    queue.join_thread()


def test_workers_that_end_after_each_task(ctx):
    with ctx.Pool(1, maxtasksperchild=1) as pool:
        found = pool.map_async(receivers.made, range(6), chunksize=1).get(LONG)
    assert [one.tolist()[0] for one in found] == list(range(6))


def test_a_child_whose_handle_nobody_receives_ends(ctx):
    queue = ctx.SimpleQueue()
    process = ctx.Process(target=receivers.put_made, args=(queue, 1, 0.1))
    process.start()
    process.join(LONG)
    assert process.exitcode == 0
    assert "did not arrive" in receivers.attempt(queue.get())
    queue.close()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_three_hundred_of_one_in_the_arguments(method):
    """Which are pickled while the process is started."""
    ctx = multiprocessing.get_context(method)
    shared = fastdl.share(np.arange(300, dtype=np.int32))
    here, there = ctx.Pipe()
    views = [shared] * 300 + [shared[i : i + 1] for i in range(300)]
    process = ctx.Process(target=receivers.answer_sums, args=(there, views))
    process.start()
    assert here.recv() == (True, 301 * sum(range(300)))
    process.join(LONG)
    assert process.exitcode == 0


def test_threads_that_send_and_receive_at_once():
    shared, found = fastdl.share(np.arange(64.0)), []

    def work(i):
        found.extend(through_a_pipe(shared[i:]).tolist()[0] == i for _ in range(20))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert found == [True] * 160


FORKED_BY_OTHERS = """
    import multiprocessing, os
    from multiprocessing.reduction import ForkingPickler
    import numpy as np
    import fastdl

    here, there = multiprocessing.Pipe()
    here.send(fastdl.share(np.zeros(3)))
    there.recv()  # the thread that sends is there, but not in what is forked
    pid = os.fork()
    if pid == 0:
        here.send(fastdl.share(np.full(3, 7.0)))
        here.recv()  # until that has been received
        os._exit(0)
    other = ForkingPickler.dumps(fastdl.share(np.full(3, 5.0)))
    print(there.recv().tolist())
    there.send("done")
    os.waitpid(pid, 0)
"""


def test_a_process_that_others_have_forked():
    """Its handles do not lead to those of its parent, as they do in multiprocessing itself."""
    assert run(FORKED_BY_OTHERS) == "[7.0, 7.0, 7.0]\n"


NOT_JOINED = """
    import multiprocessing, sys
    import numpy as np
    import fastdl
    from tests.support.receivers import print_slowly

    if __name__ == "__main__":
        ctx = multiprocessing.get_context(sys.argv[1])
        there, here = ctx.Pipe(duplex=False)
        ctx.Process(target=print_slowly, args=(there,)).start()
        here.send(fastdl.share(np.arange(3.0)))
"""


def test_a_main_process_that_ends_without_join(ctx):
    """multiprocessing joins the children, but removes the socket for handles first."""
    assert run(NOT_JOINED, ctx.get_start_method()) == "[0.0, 1.0, 2.0]\n"


EXITS = """
import multiprocessing
from multiprocessing import process
import numpy as np
import fastdl

def receive(tensor):
    pass

if __name__ == "__main__":
    ctx = multiprocessing.get_context("spawn")
    child = ctx.Process(target=receive, args=(fastdl.share(np.ones(2)),))
    child.start()
    child.join()
"""


def test_tensors_that_are_freed_late_at_exit(tmp_path):
    """The modules of a spawned child are cleared before the tensors in its arguments."""
    (tmp_path / "main.py").write_text(EXITS)
    assert run_python(str(tmp_path / "main.py")).stderr == ""


def test_a_receiver_that_stops_does_not_keep_its_sender():
    """Which exits although its sharer is in the middle of a transfer."""
    ctx = multiprocessing.get_context("fork")
    here, there = ctx.Pipe()
    sender = ctx.Process(target=receivers.send_made_with_patience, args=(there, 0.5))
    sender.start()
    handle = here.recv_bytes()
    stopped = ctx.Process(target=receivers.stop_while_receiving, args=(handle,))
    stopped.start()
    sender.join(30)
    exitcode = sender.exitcode
    for process in (stopped, sender):
        process.kill()
        process.join(LONG)
    assert exitcode == 0


def test_a_sharer_whose_thread_cannot_start(monkeypatch):
    """The next handle is served, and the first has no descriptor."""
    shared, before = fastdl.share(np.arange(3.0)), descriptors()

    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        through_a_pipe(shared)
    monkeypatch.undo()
    received = []
    thread = threading.Thread(target=lambda: received.append(through_a_pipe(shared)), daemon=True)
    thread.start()
    thread.join(20)
    assert [tensor.tolist() for tensor in received] == [[0, 1, 2]]
    received.clear()
    assert descriptors() == before


LONG_PATH = """
    import os, sys, tempfile
    from multiprocessing.reduction import ForkingPickler
    import numpy as np
    import fastdl
    from tests.test_sharing import descriptors

    tempfile.tempdir = sys.argv[1]
    shared, before = fastdl.share(np.arange(3.0)), descriptors()
    for _ in range(3):
        try:
            ForkingPickler.dumps(shared)
        except OSError as error:
            print("TMPDIR" in str(error))
        else:
            print(True)  # CPython 3.15 takes another folder then
    print(descriptors() - before)
"""


def test_a_folder_for_temporary_files_with_a_long_path(tmp_path):
    """Longer than the address of a socket may be."""
    folder = tmp_path / ("n" * 120)
    folder.mkdir()
    assert run(LONG_PATH, str(folder)) == "True\nTrue\nTrue\n0\n"


def test_a_descriptor_that_other_code_has_closed():
    """The memory of another tensor, which has the number now, is not sent instead."""
    shared = fastdl.share(np.arange(3.0))
    through_a_pipe(shared)  # the thread that sends has its descriptors
    fd = sharing.find(shared)[0].fd
    os.close(fd)
    with pytest.raises(BufferError, match=f"descriptor of the shared memory, {fd}, was closed"):
        handle_of(shared)
    other = fastdl.share(np.full(3, 7.0))
    assert sharing.find(other)[0].fd == fd
    with pytest.raises(BufferError, match="was closed by other code"):
        handle_of(shared)
    assert through_a_pipe(other).tolist() == [7, 7, 7]
    spare = os.dup(fd)
    del shared  # which closes the descriptor of the other
    os.dup2(spare, fd)
    os.close(spare)


# ---- pickles of others, and copies ----------------------------------------------------------


def others():
    yield "pickle", lambda x: pickle.loads(pickle.dumps(x))
    yield "pickle 5", lambda x: pickle.loads(pickle.dumps(x, 5))
    yield "copy", copy.copy
    yield "deepcopy", copy.deepcopy
    yield "copy()", lambda x: x.copy()


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in others()])
def test_others_take_the_data(way):
    """A handle that is stored would be lost data."""
    shared = fastdl.share(np.arange(3.0))
    before = descriptors()
    taken = way(shared)
    assert not taken.is_shared and taken.tolist() == [0, 1, 2]
    shared.numpy()[:] = 7
    assert taken.tolist() == [0, 1, 2] and descriptors() == before


def test_other_tensors_are_sent_as_before():
    """By the same pickler, which knows the type only."""
    tensor = fastdl.from_dlpack(np.arange(3.0))
    received = through_a_pipe(tensor)
    assert not received.is_shared and received.tolist() == [0, 1, 2] and not received.readonly
    assert through_a_pipe(fastdl.asarray(b"abc")).readonly


def test_import_loads_nothing():
    loaded = (
        "import sys, fastdl; fastdl.empty(3).is_shared; print('multiprocessing' in sys.modules)"
    )
    assert run(loaded) == "False\n"
    assert run(loaded.replace("fastdl.empty(3)", "fastdl.empty(3, shared=True)")) == "True\n"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'sharing_'"):
        fastdl.sharing_  # noqa: B018


# ---- what cannot be had ---------------------------------------------------------------------


def assert_lost(x, *words):
    """Whatever is done with `x` says why it did not arrive."""
    assert "did not arrive" in repr(x) and str(x) == repr(x)
    uses = [
        lambda: x.shape, lambda: x.tolist(), lambda: x.numpy(), lambda: len(x), lambda: x[0],
        lambda: bool(x), lambda: float(x), lambda: int(x), lambda: list(x), lambda: 3 in x,
        lambda: bytes(x), lambda: x == 3, lambda: np.asarray(x), lambda: np.from_dlpack(x),
        lambda: fastdl.from_dlpack(x), lambda: fastdl.asarray(x), lambda: fastdl.share(x),
        lambda: fastdl.convert(x, np.ndarray), lambda: setattr(x, "a", 1), lambda: copy.copy(x),
        lambda: x.is_shared, lambda: x + 1, lambda: 1 - x, lambda: -x, lambda: x < 1,
        lambda: x @ x, lambda: f"{x:.2f}", lambda: x.__delitem__(0), lambda: delattr(x, "a"),
        lambda: np.ones(3) * x,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(BufferError, match="did not arrive") as raised:
            use()
        for word in words:
            assert word in str(raised.value)


def quietly(monkeypatch):
    """The thread that sends reports what it cannot send, on stderr."""
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)


def test_a_handle_is_received_once(monkeypatch):
    quietly(monkeypatch)
    stored = bytes(ForkingPickler.dumps(fastdl.share(np.arange(3.0))))
    assert pickle.loads(stored).tolist() == [0, 1, 2]
    lost = pickle.loads(stored)
    assert_lost(lost, "received once", "does not have it any more")
    for again in (pickle.loads(pickle.dumps(lost)), through_a_pipe(lost)):
        assert repr(again) == repr(lost)
        assert_lost(again)


def test_a_pool_goes_on(pool, monkeypatch):
    quietly(monkeypatch)
    stored = bytes(ForkingPickler.dumps(fastdl.share(np.arange(3.0))))
    pickle.loads(stored)
    lost = pickle.loads(stored)
    assert "did not arrive" in pool.apply_async(receivers.attempt, [lost]).get(LONG)
    assert_lost(pool.apply_async(receivers.echo, [lost]).get(LONG))
    assert pool.apply_async(receivers.sums, [fastdl.share(np.arange(3.0))]).get(LONG) == 3


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_sender_that_is_gone(ctx, how):
    here, there = ctx.Pipe()
    process = ctx.Process(target=receivers.send_made_and_die, args=(there, how))
    process.start()
    process.join(LONG)
    assert_lost(here.recv(), "while its sender runs")


def test_memory_outlives_its_sender(ctx):
    here, there = ctx.Pipe()
    process = ctx.Process(target=receivers.put_made, args=(queue := ctx.SimpleQueue(), 3))
    process.start()
    received = queue.get()
    process.kill()
    process.join(LONG)
    assert received.tolist() == [3] * 4 and receivers.add_one(received)
    here.close(), there.close(), queue.close()


def test_a_receiver_that_is_killed(ctx):
    """With the memory: nothing is left. Before it has it: one descriptor, until the sender ends."""
    shared = fastdl.share(np.zeros(3))
    assert through_a_pipe(shared).is_shared
    for target, left in ((receivers.receive_and_die, 0), (receivers.read_bytes_and_die, 1)):
        here, there = ctx.Pipe()
        process = ctx.Process(target=target, args=(there,))
        process.start()
        before = descriptors()
        here.send(shared)
        process.join(LONG)
        assert process.exitcode == -signal.SIGKILL
        assert descriptors() <= before + left
        here.close(), there.close()
    assert through_a_pipe(shared).is_shared  # it goes on


def test_a_chain_whose_first_process_is_killed(ctx):
    """A, B, C: B has a descriptor of its own, from which C gets one."""
    a, a_to_b = ctx.Pipe()
    c, b_to_c = ctx.Pipe()
    first = ctx.Process(target=receivers.send_made_and_wait, args=(a_to_b,))
    first.start()
    handle = a.recv_bytes()
    b, to_b = ctx.Pipe()
    second = ctx.Process(target=receivers.pass_on, args=(to_b, b_to_c))
    second.start()
    b.send_bytes(handle)
    assert b.recv() == "received"
    first.kill()
    first.join(LONG)
    b.send("go on")
    received = c.recv()
    assert received.is_shared and received.tolist() == [9] * 4
    c.send("done")
    second.join(LONG)
    assert second.exitcode == 0


class Given:
    """In place of a DupFd: gives a descriptor that this process has."""

    def __init__(self, fd):
        self.fd = fd

    def detach(self):
        return self.fd


def memfd(size, seals=True):
    import fcntl

    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


linux = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd_create")


@linux
@pytest.mark.parametrize(
    ("opened", "words"),
    [
        (lambda: memfd(47), "expected a file of 48 bytes"),
        (lambda: memfd(4096), "expected a file of 48 bytes"),
        (lambda: memfd(48, seals=False), "sealed"),
        (lambda: os.open("/dev/zero", os.O_RDWR), "expected a file of 48 bytes"),
        (lambda: os.pipe()[0], "expected a file of 48 bytes"),
        (lambda: os.open("/", os.O_RDONLY), "expected a file of 48 bytes"),
        (lambda: 10**6, "is not available"),
        (lambda: -1, "is not available"),
        (lambda: "a", "is not available"),
    ],
    ids=["smaller", "larger", "not sealed", "device", "pipe", "folder", "closed", "none", "text"],
)
def test_memory_that_is_not_what_it_should_be(opened, words):
    handle = handle_of(fastdl.share(np.arange(6.0)))
    handle[2], handle[3] = Given(opened()), b"unknown"
    before = descriptors()
    assert_lost(sharing.receive(*handle), words)
    assert descriptors() <= before  # it was closed


@linux
def test_a_descriptor_that_was_mapped_is_closed_by_the_mapping(monkeypatch):
    """What closed it again would close that of somebody else, who has the number by then."""

    class Failing:
        def __init__(self, *_):
            raise MemoryError

    taken = []

    def close(fd, close=os.close):
        close(fd)
        taken.append(os.dup(1))  # somebody else

    handle = handle_of(fastdl.share(np.arange(6.0)))
    handle[2], handle[3] = Given(memfd(48)), b"unknown"
    before = descriptors()
    monkeypatch.setattr(sharing, "Segment", Failing)
    monkeypatch.setattr(os, "close", close)
    assert_lost(sharing.receive(*handle), "MemoryError")
    with pytest.raises(MemoryError):
        fastdl.share(np.arange(6.0))
    monkeypatch.undo()
    gc.collect()
    for fd in taken:
        os.close(fd)
    assert descriptors() == before - 1


@linux
@pytest.mark.parametrize("size", [1, 2**62])
def test_map_file_takes_the_descriptor_also_if_it_fails(size):
    before, (reader, writer) = descriptors(), os.pipe()
    with pytest.raises(OSError):
        core.map_file(reader, size)
    os.close(writer)
    assert descriptors() == before


def test_sharing_without_memory_for_python():
    """MemoryError, wherever it runs out, and every descriptor closed once."""
    pytest.importorskip("_testcapi")
    printed = run_isolated("""
        import gc, os, sys
        import _testcapi
        import numpy as np
        import fastdl
        from tests.test_sharing import descriptors
        sys.unraisablehook = lambda _: None
        x = fastdl.share(np.arange(6.0)).copy()
        failed, k = 0, 0
        before = descriptors()
        while k < failed + 20:
            hoard = [fastdl.from_dlpack(np.zeros(1)) for _ in range(70)]
            _testcapi.set_nomemory(k, k + 1)
            try:
                result = fastdl.share(x)
            except MemoryError:
                failed += 1
            finally:
                _testcapi.remove_mem_hooks()
            result = None
            k += 1
        gc.collect()
        print(failed > 5, descriptors() - before)
    """)
    assert printed == "True 0\n"


@linux
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (5, (7,)), (5, (2**62, 2**62)), (5, (-1,)), (5, None), (5, (2.5,)), (5, (1,) * 65),
        (6, (2, 64, 2)), (6, (2, 65, 1)), (6, (256, 64, 1)), (6, (2, 64, 0)), (6, None), (6, "f8"),
        (7, (2,)), (7, (-1,)), (7, (2**62,)), (7, (1, 1)), (7, ("a",)),
        (8, 8), (8, -8), (8, 2**62), (8, 2**70), (8, None), (8, 48),
        (4, 0), (4, -1), (4, 2**63), (4, "48"),
    ],
)  # fmt: skip
def test_elements_that_are_not_all_there(place, value):
    handle = handle_of(fastdl.share(np.arange(6.0)))
    handle[2], handle[3] = Given(memfd(48)), b"unknown"
    before = descriptors()
    good = sharing.receive(*[*handle[:2], Given(memfd(48)), *handle[3:]])
    assert good.shape == (6,) and good.tolist() == [0] * 6
    handle[3] = b"another"
    handle[place] = value
    lost = sharing.receive(*handle)
    assert_lost(lost)
    del good
    assert descriptors() <= before


def test_a_handle_of_a_newer_release():
    handle = handle_of(fastdl.share(np.arange(3.0)))
    assert_lost(sharing.receive(2, "7.0.0", {"anything": 1}), "7.0.0", fastdl.__version__)
    for arguments in ((), (1,), (1, "0.1"), handle[:5], [*handle, 1], (None,) * 11):
        assert_lost(sharing.receive(*arguments))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("received 0 items of ancdata"), "no file descriptor for it.*ulimit -n"),
        (OSError(errno.EMFILE, "Too many open files"), "no file descriptor for it.*ulimit -n"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "could not map it"),
    ],
)
def test_why_a_receiver_does_not_have_it(error, words):
    class Failing:
        def detach(self):
            raise error

    handle = handle_of(fastdl.share(np.arange(3.0)))
    handle[2], handle[3] = Failing(), b"unknown"
    lost = sharing.receive(*handle)
    assert_lost(lost)
    assert re.search(words, repr(lost)) and "received once" not in repr(lost)


def test_interrupts_pass():
    class Interrupted:
        def detach(self):
            raise KeyboardInterrupt

    handle = handle_of(fastdl.share(np.arange(3.0)))
    handle[2] = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        sharing.receive(*handle)


def test_the_pickler_of_multiprocessing_writes_little():
    shared = fastdl.share(np.zeros(1 << 20))
    buffer = io.BytesIO()
    ForkingPickler(buffer).dump(shared)
    assert buffer.getbuffer().nbytes < 600
