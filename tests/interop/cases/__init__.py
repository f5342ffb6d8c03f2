# SPDX-License-Identifier: Apache-2.0
"""Test files that run in a process of their own: a peer may abort it, and some cannot share one.

pytest does not collect them by itself; ../test_peers.py and ../test_other_libraries.py run them,
through ../harness.py.
"""
