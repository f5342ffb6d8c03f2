"""What other processes run in the tests of shared memory. Little is imported, since each process
does so again."""

import os
import pickle
import signal
import time

import numpy as np

import fastdl
from fastdl._convert.pickling import is_padded
from fastdl._core import tensor as core


def facts(tensor):
    """What there is to know of a Tensor, but where it is."""
    return (
        *(str(tensor.dtype), tensor.shape, tensor.strides, tensor.readonly, is_padded(tensor)),
        core.read_bytes(tensor),
    )


def shared_facts(tensor):
    assert tensor.is_shared
    return facts(tensor)


def add_one(tensor):
    """To memory of numbers, in place."""
    tensor.numpy()[...] += 1
    return tensor.is_shared


def add_one_and_answer(connection):
    tensor = connection.recv()
    connection.send(add_one(tensor))


def made(n, count=4):
    return fastdl.share(np.full(count, n, "int32"))


def second_half(tensor):
    return tensor[len(tensor) // 2 :]


def echo(x):
    return x


def attempt(x):
    """What comes of using `x`: its values, or why not."""
    try:
        return x.tolist()
    except BufferError as error:
        return str(error)


def put_made(queue, n, patience=None):
    if patience is not None:
        be_patient(patience)
    queue.put(made(n))


def be_patient(seconds):
    """How long this process waits for its receivers when it exits."""
    from fastdl._convert import sharing

    sharing.PATIENCE = seconds


def send_made_with_patience(connection, seconds):
    be_patient(seconds)
    connection.send(made(5))


def stop_while_receiving(handle):
    """After it has connected, and before it has shown that it knows the key."""
    from multiprocessing import connection

    def stop(*_):
        os.kill(os.getpid(), signal.SIGSTOP)

    connection.answer_challenge = stop
    pickle.loads(handle)


def print_slowly(connection):
    time.sleep(0.5)
    print(connection.recv().tolist())


def send_made_and_die(connection, how):
    """A sender that is gone before its handle is received."""
    connection.send(made(7))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


def receive_and_die(connection):
    """Killed once it has what it was sent."""
    connection.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def read_bytes_and_die(connection):
    """Killed before it has received the memory of the handle."""
    connection.recv_bytes()
    os.kill(os.getpid(), signal.SIGKILL)


def pass_on(source, target):
    """The middle of a chain: receives, waits until the first process is gone, sends."""
    tensor = source.recv()
    source.send("received")
    source.recv()
    target.send(tensor)
    target.recv()  # until the last one has it


def sums(*tensors):
    return sum(int(tensor.numpy().sum()) for tensor in tensors)


def answer_sums(connection, tensors):
    connection.send((all(tensor.is_shared for tensor in tensors), sums(*tensors)))


def sleep():
    time.sleep(600)


def send_made_and_wait(connection):
    connection.send(made(9))
    sleep()
