"""The host core: tensors, their element types and devices, and exchange tables."""
