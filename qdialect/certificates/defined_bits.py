"""The functions whose results have the same bits with every compiler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, ComplexType
from xdsl.ir import Attribute, Operation

from qdialect.algebra.float_format import FLOAT_FORMATS
from qdialect.ir.value_types import element_type_or_self
from qdialect.shape_ops.interface import name_of, op_model

_EXACT: Final = {
    "arith": """
    addf addi addui_extended andi bitcast ceildivsi cmpf cmpi constant divf extf extsi extui
    index_cast index_castui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli
    mulsi_extended mului_extended negf ori select sitofp subf subi truncf trunci uitofp xori
    """,
    "linalg": """
    abs add broadcast ceil copy div fill floor index max min mul negf select sub transpose yield
    """,
    "math": """
    absf absi ceil copysign ctlz ctpop cttz floor fma round roundeven sqrt trunc
    """,
    "stablehlo": """
    abs add and broadcast broadcast_in_dim case ceil clamp compare complex concatenate constant
    convert divide dynamic_broadcast_in_dim dynamic_iota dynamic_pad dynamic_reshape
    dynamic_slice dynamic_update_slice floor gather get_dimension_size get_tuple_element if imag
    iota is_finite maximum minimum multiply negate not optimization_barrier or pad popcnt real
    real_dynamic_slice reshape return reverse round_nearest_afz round_nearest_even select sign
    slice sqrt subtract transpose tuple while xor
    """,
    "tosa": """
    abs add bitwise_and bitwise_not bitwise_or bitwise_xor cast ceil clamp concat const
    const_shape equal floor gather greater greater_equal identity logical_and logical_not
    logical_or logical_xor maximum minimum mul negate pad reshape reverse scatter select slice
    sub tile transpose yield
    """,
    "tensor": """
    bitcast cast collapse_shape concat dim empty expand_shape extract extract_slice
    from_elements insert insert_slice pad reshape splat yield
    """,
}
"""
Ops on floats that move elements, or round each result once, as IEEE 754 defines it.

Sums of many terms are excluded, and so are functions that compilers approximate, such as `exp`.
"""

_CONTROL: Final = frozenset({"builtin", "cf", "func", "scf", "shape", "ub"})
"""Dialects without arithmetic of their own."""

_UNDEFINED: Final = {
    "arith": """
    ceildivsi ceildivui divsi divui floordivsi fptosi fptoui remsi remui shli shrsi shrui
    """,
    "tensor": "extract insert",
    "tosa": "arithmetic_right_shift intdiv logical_left_shift logical_right_shift",
    "stablehlo": "shift_left shift_right_arithmetic shift_right_logical",
}
"""Ops that are undefined for some operands."""

_DIVISIONS: Final = frozenset({"stablehlo.divide", "stablehlo.remainder"})
"""Ops that are undefined for some integers."""

_WHOLE_NAMES: Final = "ceil floor round roundeven round_nearest_afz round_nearest_even sign trunc"
_WHOLE: Final = frozenset(_WHOLE_NAMES.split())
"""The names of ops, without the dialect, whose results are whole floats."""

_CONVERSIONS: Final = frozenset({"arith.fptosi", "arith.fptoui", "stablehlo.convert", "tosa.cast"})


@dataclass(frozen=True)
class DefinedBits:
    """Reasons why the bits of results may differ between compilers, or between two runs."""

    unordered: str | None
    """An op whose floats depend on the compiler, such as a sum; None if there is none."""

    undefined: str | None
    """An op that is undefined for some operands; None if there is none."""

    is_discrete: bool
    """
    Whether floats are compared, or rounded to whole numbers.

    Then a small difference before may become a large one after.
    """

    precision: int
    """The significant bits of the narrowest floats that unordered ops have."""

    @property
    def tolerance(self) -> float:
        """
        The relative tolerance of results, to the largest: two thirds of the bits must agree.

        Rounding errors of `n` terms grow as the square root of `n`, so 40,000 terms of f32 stay
        within it.
        """
        return 2.0 ** (-2 * (self.precision - 1) / 3)


def defined_bits(ops: Iterable[Operation]) -> DefinedBits:
    """The reasons for functions that consist of `ops`, which include those in regions."""
    unordered = undefined = None
    is_discrete, precision = False, 53
    for op in ops:
        name = name_of(op)
        precisions = list(filter(None, map(_precision_of, _element_types(op))))
        is_division = name in _DIVISIONS and not precisions
        if is_division or _is_conversion(op, name) or _is_in(_UNDEFINED, name):
            undefined = undefined or name
        is_discrete |= _is_discrete(op, name)
        if precisions and not _is_exact(op, name):
            unordered = unordered or name
            precision = min(precision, *precisions)
    return DefinedBits(unordered, undefined, is_discrete, precision)


def _is_exact(op: Operation, name: str) -> bool:
    if any(isinstance(type, ComplexType) for type in _element_types(op)):
        return _is_moved(op)
    flags = op.properties.get("fastmath") or op.attributes.get("fastmath")
    if flags is not None and getattr(flags, "data", ()):
        return False
    dialect = name.partition(".")[0]
    if dialect in _CONTROL or _is_in(_EXACT, name) or _is_conversion(op, name):
        return True
    if name == "linalg.generic":
        iterators = op.properties.get("iterator_types") or op.attributes.get("iterator_types")
        return isinstance(iterators, ArrayAttr) and all(
            "parallel" in str(iterator) for iterator in cast("ArrayAttr[Attribute]", iterators)
        )
    return _is_moved(op)


def _is_moved(op: Operation) -> bool:
    """Whether it is a constant, a shape op, or a cast."""
    model = op_model(op)
    return not (model.cast is model.movement is model.constant is None)


def _is_conversion(op: Operation, name: str) -> bool:
    """Whether it converts floats to integers."""
    if name not in _CONVERSIONS:
        return False
    before, after = (
        [isinstance(element_type_or_self(value.type), AnyFloat) for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and not any(after)


def _is_discrete(op: Operation, name: str) -> bool:
    """Whether it maps floats to whole numbers, or to something other than floats."""
    before, after = (
        [_precision_of(element_type_or_self(value.type)) is not None for value in values]
        for values in (op.operands, op.results)
    )
    return any(before) and (not all(after) or name.partition(".")[2] in _WHOLE)


def _is_in(table: dict[str, str], name: str) -> bool:
    dialect, _, rest = name.partition(".")
    return rest in table.get(dialect, "").split()


def _element_types(op: Operation) -> Iterator[Attribute]:
    for value in (*op.operands, *op.results):
        yield element_type_or_self(value.type)


def _precision_of(type: Attribute) -> int | None:
    """The significant bits of a float, or of the parts of a complex number; None for others."""
    part = (
        cast("ComplexType[AnyFloat]", type).element_type if isinstance(type, ComplexType) else type
    )
    return FLOAT_FORMATS[part.name].precision if isinstance(part, AnyFloat) else None
