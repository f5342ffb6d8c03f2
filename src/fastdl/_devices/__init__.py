# SPDX-License-Identifier: Apache-2.0
"""Memory on devices: the order of work on it, drivers, allocation and copies."""
