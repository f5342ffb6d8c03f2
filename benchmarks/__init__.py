"""The benchmarks of fastdl: `python -m benchmarks`. README.md says how to read them."""
