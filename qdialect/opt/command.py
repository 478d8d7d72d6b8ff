"""`qdialect`: one command, with a subcommand for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from qdialect.opt.opt import version_text
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import ToolError, did_you_mean, run_tool

TOOL: Final = "qdialect"
"""The name that the command's own errors begin with."""

TASKS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Quantize a model": {
            "quantize": "from a model and records to a quantized model: all steps below",
            "import": "read a model of ONNX, TensorFlow Lite or PyTorch as a module",
            "calibrate": "run a module over records, and write the ranges of its values",
            "profile": "merge profiles of parts of the records",
            "opt": "run passes on a module: quantize it, fold, lower; it is qdialect-opt",
            "evaluate": "compare a quantized module with its float module on records",
            "export": "write a module for an engine, which runs quantized layers in integers",
        },
        "Weights in files": {
            "weights": "move weights of any size in files, as the plan of a fold says",
        },
        "Check a module": {
            "check": "prove or test that two modules compute the same",
            "run": "run a function of a module on given or random arguments",
        },
        "Use a shell": {
            "completion": "print the script with which bash, zsh or fish completes these commands",
        },
    }
)
"""The subcommands by task, each with a line about it."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command without a known subcommand: print its help, its version, or an error.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    return run_tool(TOOL, _run, argv)


def _run(arguments: Sequence[str]) -> bool:
    if not arguments or arguments[0] in ("-h", "--help"):
        text = help_text()
    elif arguments[0] == "--version":
        text = version_text()
    else:
        known = [name for names in TASKS.values() for name in names]
        hint = did_you_mean(arguments[0], known) or f"; there are {', '.join(known)}"
        raise ToolError(f"there is no subcommand '{arguments[0]}'{hint}")
    with standard_output() as stream:
        stream.write(f"{text}\n")
    return True


def help_text() -> str:
    """The text of `--help`: the subcommands by task."""
    lines = [f"usage: {TOOL} SUBCOMMAND ...", ""]
    for task, names in TASKS.items():
        lines += [f"{task}:", *(f"  {name:<10} {text}" for name, text in names.items()), ""]
    lines.append(f"'{TOOL} SUBCOMMAND --help' prints the options of one.")
    return "\n".join(lines)
