"""The common part of the tools that run a function of a model on records."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.check.function_comparison import visibility_of
from qdialect.check.interpreters.interpreter import DEFAULT_MAX_STEPS
from qdialect.opt.tool_error import ToolError
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.calibration.record_files import Argument

RECORDS_HELP = """\
records:
  An .npz file has an array for each argument of the function: under arg0, arg1, ..., or under
  the key of the argument, such as its name in the text. If the argument has the shape S, an
  array of shape S is one record, and one of shape (n, *S) holds n records. All arrays of a file
  hold the same number of records. The .npz files of a folder are read in the order of their names,
  as one sequence. Records are numbered from 0. Elements have the dtype of the argument: float32 for
  f32; bfloat16 and smaller floats are their bits. Other arrays are errors.
"""


def add_run_arguments(parser: ArgumentParser) -> None:
    """Add the arguments for running a function over records."""
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="an .npz file, or a folder of .npz files"
    )
    parser.add_argument(
        "--function", metavar="NAME", help="the function to run (main, or else the only public one)"
    )
    parser.add_argument(
        "--engine",
        choices=("iree", "reference"),
        default="iree",
        help="run it with IREE, which compiles it once, or with qdialect's interpreter (iree)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="spread records over N processes (1)"
    )
    parser.add_argument(
        "--max-steps",
        type=int,
        default=DEFAULT_MAX_STEPS,
        metavar="COUNT",
        help="the maximum number of steps that qdialect's interpreter takes for each record "
        f"({DEFAULT_MAX_STEPS})",
    )


def check_run_arguments(options: Namespace) -> None:
    """Raise ToolError for fewer than one job, or a negative number of steps."""
    if options.jobs < 1:
        raise ToolError(f"--jobs must be at least 1, but is {options.jobs}")
    if options.max_steps < 0:
        raise ToolError(f"--max-steps must not be negative, but is {options.max_steps}")


def chosen_function(module: ModuleOp, name: str | None) -> str:
    """The function to run: `name`, or the default. Raises ToolError."""
    if name is not None:
        return name
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if "main" in functions:
        return "main"
    public = [
        name
        for name, op in functions.items()
        if not op.is_declaration and visibility_of(op) != "private"
    ]
    if len(public) == 1:
        return public[0]
    known = ", ".join(f"'{name}'" for name in public) or "none"
    raise ToolError(f"choose the function to run with --function: the public functions are {known}")


def arguments_of(module: ModuleOp, function: FuncOp) -> tuple[Argument, ...]:
    """The arguments, for which records have arrays. `arg0` is the first one, whatever its name."""
    keys = keys_of(module).of_values
    arguments = function.body.blocks[0].args
    numbered = [f"arg{number}" for number in range(len(arguments))]
    return tuple(
        Argument(
            (*dict.fromkeys([name] + [key for key in others if key and key not in numbered]),),
            argument.type,
        )
        for name, argument in zip(numbered, arguments, strict=True)
        for others in [(keys.get(argument), argument.name_hint)]
    )
