"""Every message of fastdl: docs/errors.md is generated from these tables, and tests/test_errors.py
meets each row as a user would."""
