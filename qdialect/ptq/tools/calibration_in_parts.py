"""Calibration in parts: each worker records a range of the records, and the profiles merge."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import as_completed
from itertools import pairwise
from typing import Final

from qdialect.opt.tool_error import ToolError
from qdialect.ptq.schemes.profile import Profile, merge_profiles
from qdialect.weights.clusters import executor

_PARTS: Final = 8
"""The number of parts on a cluster of an unknown number of workers."""


def record_in_parts(
    arguments: Sequence[str], records: range, cluster: str, max_memory: int
) -> Profile:
    """
    The profile of `records`, recorded by processes of this tool on the workers of a cluster.

    It is that of one run, byte for byte. Raises ToolError that names the records whose run failed,
    after all others have ended, MissingLibraryError, ValueError and OSError as `executor` does.
    """
    number = cluster.removeprefix("local:")
    count = max(1, min(int(number) if number.isdecimal() else _PARTS, len(records)))
    edges = [records.start + len(records) * part // count for part in range(count + 1)]
    parts = [f"{first}:{last}" for first, last in pairwise(edges)]
    profiles, failed = dict[str, Profile](), dict[str, str]()
    with executor(1, cluster, max_memory) as runner:
        assert runner is not None
        runs = {runner.submit(_record_part, arguments, part, os.getcwd()): part for part in parts}
        for run in as_completed(runs):
            try:
                profiles[runs[run]] = Profile.from_json(run.result())
            # A lost worker is an error of the library.
            except Exception as error:
                failed[runs[run]] = str(error)
    if failed:
        reasons = "; ".join(f"{part}: {reason}" for part, reason in failed.items())
        raise ToolError(f"{len(failed)} of {count} parts of the records failed: {reasons}")
    return merge_profiles([profiles[part] for part in parts])


def _record_part(arguments: Sequence[str], part: str, folder: str) -> str:
    """The JSON of a profile. Raises RuntimeError with what the process said."""
    # The last one of an option holds.
    own = [*arguments, f"--records={part}", "-o", "-", "--cluster="]
    command = [sys.executable, "-m", "qdialect", "calibrate", *own]
    run = subprocess.run(command, check=False, cwd=folder, capture_output=True, encoding="utf-8")
    if run.returncode:
        raise RuntimeError(run.stderr.strip())
    return run.stdout
