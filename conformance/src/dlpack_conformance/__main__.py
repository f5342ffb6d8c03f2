"""python -m fastdl.testing"""

import sys

from fastdl._testing.command import main

if __name__ == "__main__":
    sys.exit(main())
