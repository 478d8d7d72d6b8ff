"""`python -m qdialect`, which is `qdialect` with a subcommand, and else `qdialect-opt`."""

import sys

from qdialect.opt.process import is_subcommand, run, run_command

if __name__ == "__main__":
    sys.exit(run_command() if is_subcommand(sys.argv[1:]) else run())
