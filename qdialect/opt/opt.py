"""
`qdialect-opt`: the dialects and passes of xDSL and qdialect, with the conventions of mlir-opt.

See https://mlir.llvm.org/docs/Tutorials/MlirOpt/. Modules are imported when they are needed, since
a small run spends most of its time on imports: xDSL is not imported before an option names a pass
or a target, or a text is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from qdialect.opt.options import OP_FORMS, OPTIONS, SYNONYMS, NestedSpec, Options, PassSpec
from qdialect.opt.outputs import standard_output
from qdialect.opt.tool_error import TOOL, ToolError, did_you_mean, run_tool
from qdialect.support.text import repeated

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec


_HAS_VALUE: Final = {
    name.partition("=")[0]: "=" in name for options in OPTIONS.values() for name in options
} | {"debug": False}
"""The names of all options, and whether they have a value or are true or false."""

_BOOLEANS: Final = {
    **dict.fromkeys(("", "true", "TRUE", "True", "1"), True),
    **dict.fromkeys(("false", "FALSE", "False", "0"), False),
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    return run_tool(TOOL, _run, argv)


def _run(arguments: Sequence[str]) -> bool:
    options = parse_arguments(arguments)
    if options.help or options.version:
        with standard_output() as stream:
            stream.write(f"{help_text(options) if options.help else version_text()}\n")
        return True
    # It imports xDSL, which takes most of a small run; `--version` and errors do not need it.
    from qdialect.opt.compilation import process

    return process(options)


def parse_arguments(arguments: Sequence[str]) -> Options:
    """
    Read the command line.

    Raises ToolError if it is malformed, or names an unknown pass or target.
    """
    options = Options()
    inputs: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            inputs.extend(remaining)
        elif argument == "-" or not argument.startswith("-"):
            inputs.append(argument)
        else:
            _parse_option(argument, remaining, options)
    for name in inputs:
        _refuse_pass_as_input(name)
    if len(inputs) > 1:
        raise ToolError(f"more than one input file: {', '.join(inputs)}")
    if inputs:
        options.input_file = inputs[0]
    if options.pass_pipeline is not None:
        if options.passes:
            raise ToolError("'-pass-pipeline' option can't be used with individual pass options")
        options.passes = _parse_anchored_pipeline(options.pass_pipeline)
    return options


def _parse_option(argument: str, remaining: Iterator[str], options: Options) -> None:
    spelled, has_value, value = argument.partition("=")
    given = spelled.removeprefix("-").removeprefix("-")
    name = SYNONYMS.get(given, given)
    if name not in _HAS_VALUE and not _is_pass(name):
        name = _unabbreviated(spelled, name)
    if name not in _HAS_VALUE:
        options.passes += _parse_passes(f"{name}{{{value.strip()}}}")
    elif _HAS_VALUE[name]:
        if not has_value and (following := next(remaining, None)) is not None:
            value = following
        elif not has_value:
            raise ToolError(f"for the {spelled} option: requires a value!")
        _set_value(name, value, options)
    elif (name, value) == ("help", "all"):
        options.help = "all"
    elif value not in _BOOLEANS:
        raise ToolError(f"for the {spelled} option: '{value}' is not true or false")
    elif name == "print-op-generic":
        options.op_form = "generic" if _BOOLEANS[value] else "custom"
    else:
        setattr(options, name.replace("-", "_"), _BOOLEANS[value])


def _set_value(name: str, value: str, options: Options) -> None:
    match name:
        case "o":
            options.output_file = value
        case "t":
            targets = _parse_specs(value)
            if len(targets) != 1:
                raise ToolError(f"'{value}' is not a single target")
            options.target = targets[0]
        case "op-form":
            if value not in OP_FORMS:
                known = f"{', '.join(OP_FORMS[:-1])} or {OP_FORMS[-1]}"
                hint = did_you_mean(value, OP_FORMS)
                raise ToolError(f"--op-form must be {known}, but is '{value}'{hint}")
            options.op_form = value
        case "read-with":
            options.read_with = value
            # The other tool may know any dialect.
            options.allow_unregistered_dialect = True
        case "max-memory":
            options.max_memory = parse_max_memory(value)
        case "p" if not value.lstrip().startswith("builtin.module("):
            options.passes += _parse_passes(value)
        case "p":
            options.pass_pipeline = value
        case _:
            setattr(options, name.replace("-", "_"), value)


def _refuse_pass_as_input(name: str) -> None:
    """Raise ToolError if the input is named like a pass, whose dashes are probably missing."""
    if re.fullmatch(r"[a-z][a-z0-9-]*", name) and not os.path.exists(name) and _is_pass(name):
        raise ToolError(f"there is no input file '{name}'; did you mean the pass '--{name}'?")


def parse_max_memory(text: str) -> int:
    """A number of bytes. Raises ToolError for any other text."""
    if not (text.isascii() and text.isdecimal()):
        raise ToolError(f"--max-memory must be a number of bytes, but is '{text}'")
    return int(text)


def _is_pass(name: str) -> bool:
    # `--version` and wrong flags of the tool itself need no xDSL.
    from qdialect.opt.registry import find_pass

    return find_pass(name) is not None


def _unabbreviated(spelled: str, start: str) -> str:
    """The option of this tool, no pass, whose name alone begins so. Raises ToolError."""
    spellings = [name for name in (*_HAS_VALUE, *SYNONYMS) if name.startswith(start)]
    names = {SYNONYMS.get(name, name) for name in spellings} - {"debug"}
    if len(names) != 1 or not spelled.startswith("--"):
        _refuse_argument(spelled, start)
    return names.pop()


def _refuse_argument(spelled: str, name: str) -> NoReturn:
    # `--version` and wrong flags of the tool itself need no xDSL.
    from qdialect.opt.registry import get_all_passes

    known = [*_HAS_VALUE, *SYNONYMS, *get_all_passes()]
    hint = did_you_mean(name, known, "--")
    raise ToolError(f"unknown command line argument '{spelled}'; try '{TOOL} --help'{hint}")


def _parse_anchored_pipeline(text: str) -> list[PassSpec]:
    anchored = re.fullmatch(r"\s*builtin\.module\s*\((.*)\)\s*", text, re.DOTALL)
    if anchored is None:
        raise ToolError(
            "expected pass pipeline to be wrapped with the anchor operation type, e.g. "
            "'builtin.module(...)'"
        )
    return _parse_pipeline(anchored[1])


_STRING = '"' + repeated(r'[^"\\]++|\\.') + '"?'
_NESTED = re.compile(r"\s*([\w.]+)\s*\((.*)\)\s*", re.DOTALL)


def _parse_pipeline(text: str) -> list[PassSpec]:
    """Passes, and pipelines for the ops of one name: `func.func(a,b)`."""
    specs: list[PassSpec] = []
    for item in _split_items(text):
        if (nested := _NESTED.fullmatch(item)) is not None:
            specs.append(NestedSpec(nested[1], tuple(_parse_pipeline(nested[2]))))
        else:
            specs += _parse_passes(item)
    return specs


def _split_items(text: str) -> Iterator[str]:
    """The items between commas. Commas in brackets or quotes do not count."""
    start = depth = 0
    for token in re.finditer(_STRING + r"|[(){},]", text):
        if token[0] in ("(", "{"):
            depth += 1
        elif token[0] in (")", "}"):
            depth -= 1
        elif token[0] == "," and not depth:
            yield text[start : token.start()]
            start = token.end()
    yield text[start:]


def _parse_passes(text: str) -> list[ArgSpec]:
    specs = _parse_specs(text)
    for spec in specs:
        if not _is_pass(spec.name):
            # `--version` and wrong flags of the tool itself need no xDSL.
            from qdialect.opt.registry import get_all_passes

            raise ToolError(
                f"'{spec.name}' does not refer to a registered pass or pass pipeline"
                f"{did_you_mean(spec.name, get_all_passes())}"
            )
    return specs


def _parse_specs(text: str) -> list[ArgSpec]:
    """Names with options. Unlike in xDSL, blanks around commas and braces are allowed."""
    # Only textual pipelines and targets need it; flags do not.
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    tidy = re.sub(
        # Blanks are an alternative of their own, so that a long run of them is matched once.
        rf"({_STRING})" r'|\s*+([,{}])\s*+|(\s++)|(?<==)([^\s",{}]++)',
        lambda match: match[1] or match[2] or match[3] or _quoted(match[4]),
        text.strip(),
    )
    try:
        return list(parse_pipeline(tidy))
    except ArgSpecParseError as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
    except (RuntimeError, StopIteration):
        # xDSL does not handle text that ends within options.
        reason = "unexpected end"
    if separated := _separated_by_spaces(tidy):
        reason = f"options are separated by spaces: '{separated}'"
    raise ToolError(f"cannot read '{text}': {reason}")


def _quoted(value: str) -> str:
    """
    The value of an option in quotes, unless it is a word or a number, which xDSL reads as it is.
    """
    if re.fullmatch(r"[A-Za-z_][\w-]*+|[-+]?[\d.]++(?:[eE][-+]?\d++)?", value):
        return value
    return '"' + value.replace("\\", "\\\\") + '"'


_COMMA_BEFORE_OPTION = re.compile(r",(?=[\w-]+=)")


def _separated_by_spaces(text: str) -> str | None:
    """`text` with spaces instead of commas between options; None if it has no such commas."""
    separated, count = re.subn(
        r"\{[^{}]*\}", lambda options: _COMMA_BEFORE_OPTION.sub(" ", options[0]), text
    )
    return separated if count and separated != text else None


def version_text() -> str:
    """The text of `--version`."""
    # Only `--version` needs the versions of packages (40 ms).
    from importlib.metadata import version

    # For the same reason.
    from qdialect.support.version import __version__

    return f"{TOOL} {__version__} (xDSL {version('xdsl')}, MLIR 22 quant dialect)"


def help_text(options: Options) -> str:
    """The text of `--help`: of the passes on the command line, or else of the tool."""
    # Only `--help` reads the docstrings and sources of passes.
    from qdialect.opt.help_text import pass_help, tool_help

    if options.passes:
        return pass_help(options.passes)
    return tool_help(all=options.help == "all")
