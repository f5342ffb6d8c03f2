# SPDX-License-Identifier: Apache-2.0
"""Signals to child processes."""

import signal
from contextlib import contextmanager


@contextmanager
def interruptible():
    """Children that are started within can be interrupted. Whoever runs the tests in the background
    may ignore the signal, which a child inherits."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
