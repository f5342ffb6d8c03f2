"""Memory on devices: the order of work on it, drivers, allocation and copies."""
