"""`python -m qdialect`, which is `qdialect-opt`."""

import sys

from qdialect.opt.process import run

if __name__ == "__main__":
    sys.exit(run())
