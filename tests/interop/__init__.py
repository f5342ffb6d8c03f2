"""Tests against real libraries. Their facts are in peers.py; cases/ runs in child processes."""
