# SPDX-License-Identifier: Apache-2.0
"""The host core: tensors, their element types and devices, and exchange tables."""
