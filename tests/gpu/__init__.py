# SPDX-License-Identifier: Apache-2.0
"""What only a device can show, and the same on the simulated drivers: see README.md."""
