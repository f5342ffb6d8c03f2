"""What only a device can show, and the same on the simulated drivers: see README.md."""
