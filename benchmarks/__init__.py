"""The benchmarks of fastdl: `python -m benchmarks`. README.md says how to read them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
