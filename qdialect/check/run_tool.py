"""
`qdialect-run`: run a function of a module, and print its results.

It has the flags of xDSL's `xdsl-run`, but not its class: errors of `xdsl-run` print the whole
module and have no location.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from xdsl.context import Context
from xdsl.utils.exceptions import InterpretationError, ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.algebra.views import as_view
from qdialect.check.interpreters.arguments import random_arguments
from qdialect.check.interpreters.interpreter import (
    DEFAULT_MAX_STEPS,
    OpInterpretationError,
    find_function,
    run_function,
)
from qdialect.dialects.arrays.values import TypedArray, held_type, without_repeats
from qdialect.dialects.quant.constants import verify_in_range
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.value_types import element_type_or_self, is_static, shape_of
from qdialect.opt.compilation import Compilation
from qdialect.opt.diagnostics import DiagnosticHandler, DiagnosticPrinter
from qdialect.opt.files import read_text
from qdialect.opt.module_tool import ModuleArgumentParser, read_module, whole_number
from qdialect.opt.outputs import standard_output
from qdialect.support.memory import MemoryLimitError
from qdialect.text.dense import DenseLiteral
from qdialect.text.messages import reading_message_of
from qdialect.text.parser import LocatingParser
from qdialect.text.source import AbridgedInput


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 if there was an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        "qdialect-run", description="Run a function, and print its results."
    )
    parser.add_argument("input_file", nargs="?", default="-", help="- for standard input")
    parser.add_argument(
        "--symbol", "--entry", default="main", metavar="NAME", help="the function to run (main)"
    )
    arguments = parser.add_mutually_exclusive_group()
    arguments.add_argument(
        "--args",
        default="",
        metavar="VALUES",
        help="its arguments, separated by commas: 'dense<[1, 2]> : tensor<2xi8>, 1.5 : f32'",
    )
    arguments.add_argument("--args-file", metavar="FILE", help="a file with the arguments")
    arguments.add_argument(
        "--random-inputs",
        type=whole_number("--random-inputs"),
        metavar="SEED",
        help="make random arguments, with this seed",
    )
    parser.add_max_steps(DEFAULT_MAX_STEPS, "of a run: one for an op, more for a large one")
    parser.add_argument("--verbose", action="store_true", help="print the arguments too")
    return parser.run(_run_function, argv)


def _run_function(options: Namespace) -> bool:
    printer = DiagnosticPrinter(sys.stderr)
    compilation = read_module(options.input_file, printer, options)
    if compilation is None:
        return False
    module, context, symbol = compilation.module, compilation.context, options.symbol
    try:
        values = _arguments(options, compilation, printer)
        if values is None:
            return False
        results = run_function(module, symbol, values, context, max_steps=options.max_steps)
    except OpInterpretationError as error:
        printer.error(str(error), compilation.locate(error.op))
        return False
    except InterpretationError as error:
        printer.error(str(error), compilation.source.name)
        return False
    printed = [*values, *results] if options.verbose else results
    # A splat prints as one element.
    lists = [value.elements for value in printed if without_repeats(value.elements).size > 1]
    nbytes, most = sum(elements.nbytes for elements in lists), options.max_memory
    if nbytes > most:
        # A view takes no memory, but its text does.
        raise MemoryLimitError(
            f"{nbytes} bytes of results are too many to print: {most} are allowed (--max-memory)"
        )
    with standard_output() as stream:
        if options.verbose:
            for number, value in enumerate(values):
                stream.write(f"// argument #{number}: ")
                value.write_to(stream)
                stream.write("\n")
        for result in results:
            result.write_to(stream)
            stream.write("\n")
    return True


def _arguments(
    options: Namespace, compilation: Compilation, handler: DiagnosticHandler
) -> Sequence[TypedArray] | None:
    """The arguments; None if their text has an error, which has been reported."""
    if options.random_inputs is not None:
        function = find_function(compilation.module, options.symbol)
        return random_arguments(function.function_type, options.random_inputs)
    text: str | AbridgedInput = options.args
    if options.args_file is not None:
        source = read_text(options.args_file, handler)
        if source is None:
            return None
        text = source.input
    try:
        return parse_values(text, "<args>", compilation.context)
    except ParseError as error:
        handler.parse_error(error)
        return None


def parse_values(text: str | AbridgedInput, name: str, context: Context) -> list[TypedArray]:
    """
    Values, separated by commas, as qdialect-run prints them.

    Errors give `name` as the name of the text, unless the text has its own. Raises ParseError.
    """
    parser = _ValueParser(context, text, name)
    try:
        return parser.parse_values()
    except ParseError:
        raise
    except Exception as error:
        parser.raise_error(reading_message_of(error))


_EXAMPLES: Final = "`1.5 : f32` or `dense<[1, 2]> : tensor<2xi8>`"


class _ValueParser(LocatingParser):
    def parse_values(self) -> list[TypedArray]:
        values: list[TypedArray] = []
        while self.current_token.kind is not MLIRTokenKind.EOF:
            if values:
                self.parse_punctuation(",")
            values.append(self.parse_value())
        return values

    def parse_value(self) -> TypedArray:
        position = self.pos
        is_tensor = self.parse_optional_keyword("dense") is not None
        if is_tensor:
            literal = DenseLiteral.parse_after_keyword(self, position)
        else:
            number = self.parse_optional_boolean()
            if number is None:
                number = self.expect(
                    self.parse_optional_number, f"expected a value, as in {_EXAMPLES}"
                )
            literal = DenseLiteral(self, position, [number], [position], 1, None)
        if self.parse_optional_punctuation(":") is None:
            self.raise_error(f"expected ':' and a type, as in {_EXAMPLES}")
        type_position = self.pos
        type = self.parse_type()
        shape = shape_of(type)
        if is_tensor and not is_static(shape):
            self.raise_error("a tensor must have a static shape", type_position)
        if not is_tensor and element_type_or_self(type) is not type:
            self.raise_error("a number cannot have a tensor type", type_position)
        element_type = element_type_or_self(type)
        is_stored = isinstance(element_type, StoredType)
        try:
            array_type = held_type(element_type)
            elements = literal.to_values(array_type, shape or (), is_storage=is_stored)
            if isinstance(element_type, StoredType):
                verify_in_range(elements, element_type)
            return TypedArray.of(as_view(elements).array(), type)
        except (InterpretationError, VerifyException) as error:
            self.raise_error(str(error), type_position)
