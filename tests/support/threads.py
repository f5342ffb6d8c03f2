# SPDX-License-Identifier: Apache-2.0
"""Several threads that do things to the same objects at the same time."""

import gc
import os
import sys
import threading

# ThreadSanitizer needs few rounds, and is slow.
ROUNDS = int(os.environ.get("FASTDL_TEST_ROUNDS", "200"))


def together(*functions, rounds=ROUNDS, collect=True):
    """Calls each function with 0, 1, ... on a thread of its own, `rounds` times; all begin at once.

    A further thread collects garbage all the while. The first exception of any thread is raised
    when all have ended. A GIL changes hands as often as it can.
    """
    start = threading.Barrier(len(functions) + collect)
    errors, done = [], threading.Event()

    def run(function):
        start.wait()
        try:
            for i in range(rounds):
                function(i)
        except BaseException as error:
            errors.append(error)

    def collector():
        start.wait()
        while not done.wait(0.001):
            gc.collect()

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    further = [threading.Thread(target=collector)] if collect else []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads + further:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        done.set()
        for thread in further:
            thread.join()
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def runs_during(function, meanwhile=lambda: None, attempts=200):
    """Whether another thread can run Python while `function` runs, as it can if that releases the
    GIL: calls it until that thread has run `meanwhile`."""
    gate, ran = threading.Lock(), []
    gate.acquire()

    def run():
        gate.acquire()
        meanwhile()
        ran.append(True)

    thread, interval = threading.Thread(target=run), sys.getswitchinterval()
    sys.setswitchinterval(10_000)  # a thread keeps the GIL until it waits or releases it
    try:
        thread.start()  # returns once the other thread waits
        gate.release()
        while not ran and attempts > 0:
            function()
            attempts -= 1
        return bool(ran)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
