# SPDX-License-Identifier: Apache-2.0
"""Bridges: exchange tables for libraries that publish none, and facts about the others."""
