"""`qdialect profile merge`: one profile of the records of several."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from qdialect.opt.module_tool import ModuleArgumentParser
from qdialect.opt.outputs import STANDARD_OUTPUT, check_writable, write_file
from qdialect.opt.tool_error import ToolError, reason_of, run_tool
from qdialect.ptq.schemes.profile import Profile, merge_profiles

TOOL: Final = "qdialect profile merge"
"""The name that the tool's own errors begin with."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        "qdialect profile",
        description="Merge profiles of the same module, which have different records. The result "
        "is the profile of one calibration with all of these records, byte for byte.",
    )
    parser.add_argument("action", choices=("merge",), help="what is done with the profiles")
    parser.add_argument("profiles", nargs="+", metavar="PROFILE", help="a file of a profile")
    parser.add_argument(
        "-o", dest="output", default="-", metavar="FILE", help="the merged profile, as JSON"
    )
    return run_tool(TOOL, lambda arguments: _merge(parser.parse_args(arguments)), argv)


def _merge(options: Namespace) -> bool:
    if options.output not in STANDARD_OUTPUT:
        check_writable(options.output)
    profiles = [read_profile(path) for path in options.profiles]
    try:
        merged = merge_profiles(profiles)
    except ValueError as error:
        raise ToolError(str(error)) from None
    write_file(options.output, merged.to_json())
    count = len({index for value in merged.values.values() for index in value.records.tolist()})
    sys.stderr.write(f"{TOOL}: {count} records of {len(profiles)} profiles are merged\n")
    return True


def read_profile(path: str) -> Profile:
    """A profile in a file. Raises ToolError."""
    try:
        return Profile.read(path)
    except OSError as error:
        raise ToolError(f"cannot open '{path}': {reason_of(error)}") from None
    except ValueError as error:
        raise ToolError(str(error)) from None
