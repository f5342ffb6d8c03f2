# SPDX-License-Identifier: Apache-2.0
"""Tests against real libraries. Their facts are in peers.py; cases/ runs in child processes."""
