# SPDX-License-Identifier: Apache-2.0
"""The DLPack protocol in Python: negotiation, streams and copies."""
