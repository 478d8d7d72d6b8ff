"""
Ops of xdsl-jax that misread StableHLO's text, or refuse what StableHLO accepts.

Each repair is tried on a sample first: an op that handles its sample stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Final, NamedTuple, Self

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import AnyTensorType, DenseArrayBase, TensorType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


class _Misread(NamedTuple):
    """A text that another package may parse without an error, but with a wrong meaning."""

    text: str
    generic: str
    """A regular expression that matches the generic form if the text is read correctly."""

    repaired: Callable[[type[IRDLOperation]], type[IRDLOperation]]
    """Makes an op class that reads the text correctly, from the other package's."""

    def is_misread(self, context: Context) -> bool:
        """Whether a context parses the text with a wrong meaning."""
        stream = StringIO()
        try:
            module = Parser(context, self.text).parse_module()
            Printer(stream, print_generic_format=True).print_op(module)
        except Exception:
            # An op of another package may raise anything; an error is not a misreading.
            return False
        return re.search(self.generic, stream.getvalue()) is None


def _with_pairs_of_arguments(reduce: type[IRDLOperation]) -> type[IRDLOperation]:
    """
    A `stablehlo.reduce` whose parser accepts pairs of reducer arguments, and an op in their place.

    The text lists pairs; the block has the first of all pairs, then the second of all pairs.
    """

    class ReduceOp(reduce):
        @classmethod
        @override
        def parse(cls, parser: Parser) -> Self:
            position = parser.pos
            pairs = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: _parse_reduced(parser)
            )
            applied = None
            if parser.parse_optional_keyword("applies") is not None:
                applied = parser.parse_identifier()
            parser.parse_keyword("across")
            parser.parse_keyword("dimensions")
            parser.parse_punctuation("=")
            dimensions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            attributes = parser.parse_optional_attr_dict()
            parser.parse_punctuation(":")
            types = parser.parse_function_type()
            values = [*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)]
            operands = parser.resolve_operands(values, types.inputs.data, position)
            if applied is None:
                region = _parse_reducer(parser, len(pairs))
            else:
                region = _reducer_of(parser, applied, operands[-1].type)
            return cls.create(
                operands=operands,
                result_types=types.outputs.data,
                properties={"dimensions": DenseArrayBase.from_list(i64, dimensions)},
                attributes=attributes,
                regions=[region],
            )

    return ReduceOp


def _parse_reduced(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    """Parse `(%x init: %c)`."""
    parser.parse_punctuation("(")
    value = parser.parse_unresolved_operand()
    parser.parse_keyword("init")
    parser.parse_punctuation(":")
    start = parser.parse_unresolved_operand()
    parser.parse_punctuation(")")
    return value, start


def _parse_reducer(parser: Parser, count: int) -> Region:
    """Parse `reducer(%a: T, %b: T) (%c: U, %d: U) {...}`, with `count` pairs of arguments."""
    parser.parse_keyword("reducer")
    pairs: list[Sequence[Parser.Argument]] = []
    for _ in range(count):
        position = parser.pos
        pair = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument()
        )
        if len(pair) != 2:
            parser.raise_error("a pair of arguments was expected", position)
        pairs.append(pair)
    return parser.parse_region([*(pair[0] for pair in pairs), *(pair[1] for pair in pairs)])


def _reducer_of(parser: Parser, name: str, type: Attribute) -> Region:
    """The reducer that applies the op of a name to two arguments of `type`."""
    block = Block(arg_types=[type, type])
    for each, operands, results in ((name, block.args, [type]), ("stablehlo.return", None, [])):
        op_type = parser.ctx.get_optional_op(each)
        if op_type is None:
            parser.raise_error(f"'{each}' is not registered")
        last = block.last_op
        values = operands or ([] if last is None else last.results)
        block.add_op(op_type.create(operands=values, result_types=results))
    return Region(block)


def _with_compare_type(compare: type[IRDLOperation]) -> type[IRDLOperation]:
    """A `stablehlo.compare` whose `compare_type` has StableHLO's name in generic form."""
    properties = compare.get_irdl_definition().properties

    @irdl_op_definition
    class CompareOp(IRDLOperation):
        name = "stablehlo.compare"
        traits = compare.traits

        lhs = operand_def(AnyTensorType)
        rhs = operand_def(AnyTensorType)
        result = result_def(TensorType.constr(i1))
        comparison_direction = prop_def(properties["comparison_direction"].constr)
        comparison_type = opt_prop_def(
            properties["comparison_type"].constr, prop_name="compare_type"
        )

        assembly_format = (
            "$comparison_direction `,` $lhs `,` $rhs (`,` $compare_type^)? attr-dict `:` "
            "functional-type(operands, results)"
        )

    return CompareOp


MISREAD: Final = {
    "stablehlo.reduce": _Misread(
        """
"sample.block"() ({
^bb0(%x: tensor<2xf32>, %c: tensor<f32>):
  %0:2 = stablehlo.reduce(%x init: %c), (%x init: %c) across dimensions = [0] :
    (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
   reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>)  {
    stablehlo.return %q, %s : tensor<f32>, tensor<f32>
  }
}) : () -> ()
""",
        "%p[^%]*%r[^%]*%q[^%]*%s",
        _with_pairs_of_arguments,
    ),
    "stablehlo.compare": _Misread(
        """
"sample.block"() ({
^bb0(%x: tensor<2xf32>):
  %0 = stablehlo.compare LT, %x, %x, TOTALORDER :
    (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
}) : () -> ()
""",
        "compare_type = #stablehlo<comparison_type TOTALORDER>",
        _with_compare_type,
    ),
}


_ACCURATE: Final = (
    *("cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one"),
    *("logistic", "rsqrt", "sine", "sqrt", "tan", "tanh"),
)
"""Functions with a `result_accuracy`."""


ACCEPTED: Final = {
    "stablehlo.dynamic_broadcast_in_dim": (
        '"stablehlo.dynamic_broadcast_in_dim"(%x, %s) '
        "<{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>, tensor<1xi64>) -> tensor<?xf32>"
    ),
    **{
        f"stablehlo.{name}": (
            f'"stablehlo.{name}"(%x) <{{result_accuracy = #stablehlo.result_accuracy<'
            "mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<2xf32>) -> tensor<2xf32>"
        )
        for name in _ACCURATE
    },
}
"""A valid op of each name."""


def is_refused(op: str, context: Context) -> bool:
    """Whether an op of tensors `%x` and `%s` does not verify in a context."""
    text = f"^bb0(%x: tensor<2xf32>, %s: tensor<1xi64>):\n%0 = {op}"
    try:
        Parser(context, f'"sample.block"() ({{\n{text}\n}}) : () -> ()').parse_module().verify()
    except Exception:
        # An op of another package may raise anything.
        return True
    return False


def unverified(op: type[Operation]) -> type[Operation]:
    def verify_(self: Operation) -> None:
        pass

    # xDSL's parser looks operands up in the class itself, not in its bases.
    own = {name: held for name, held in vars(op).items() if not name.startswith("__")}
    return type(op.__name__, (op,), {**own, "verify_": verify_})
