"""Functions of elements as nodes of ONNX, by the functions that compute them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from qdialect.dialects import scalar

NODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numpy:abs": "Abs",
        "numpy:add": "Add",
        "numpy:arccos": "Acos",
        "numpy:arccosh": "Acosh",
        "numpy:arcsin": "Asin",
        "numpy:arcsinh": "Asinh",
        "numpy:arctan": "Atan",
        "numpy:arctanh": "Atanh",
        "numpy:bitwise_and": "BitwiseAnd",
        "numpy:bitwise_or": "BitwiseOr",
        "numpy:bitwise_xor": "BitwiseXor",
        "numpy:ceil": "Ceil",
        "numpy:cos": "Cos",
        "numpy:cosh": "Cosh",
        "numpy:divide": "Div",
        "numpy:equal": "Equal",
        "numpy:exp": "Exp",
        "numpy:floor": "Floor",
        "numpy:greater": "Greater",
        "numpy:greater_equal": "GreaterOrEqual",
        "numpy:invert": "BitwiseNot",
        "numpy:less": "Less",
        "numpy:less_equal": "LessOrEqual",
        "numpy:log": "Log",
        "numpy:logical_and": "And",
        "numpy:logical_not": "Not",
        "numpy:logical_or": "Or",
        "numpy:logical_xor": "Xor",
        "numpy:maximum": "Max",
        "numpy:minimum": "Min",
        "numpy:multiply": "Mul",
        "numpy:negative": "Neg",
        "numpy:power": "Pow",
        "numpy:rint": "Round",
        "numpy:sign": "Sign",
        "numpy:sin": "Sin",
        "numpy:sinh": "Sinh",
        "numpy:sqrt": "Sqrt",
        "numpy:subtract": "Sub",
        "numpy:tan": "Tan",
        "numpy:tanh": "Tanh",
        "numpy:where": "Where",
        scalar("erf"): "Erf",
        scalar("larger"): "Max",
        scalar("larger_number"): "Max",
        scalar("logistic"): "Sigmoid",
        scalar("power"): "Pow",
        scalar("quotient"): "Div",
        scalar("reciprocal"): "Reciprocal",
        scalar("sign"): "Sign",
        scalar("smaller"): "Min",
        scalar("smaller_number"): "Min",
    }
)
"""The node of a function of elements, if there is one."""

ON_TRUTHS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "numpy:add": "Xor",
        "numpy:bitwise_and": "And",
        "numpy:bitwise_or": "Or",
        "numpy:bitwise_xor": "Xor",
        "numpy:equal": "Equal",
        "numpy:multiply": "And",
        "numpy:where": "Where",
    }
)
"""The same of functions of integers, for integers of one bit."""

IS_UNSIGNED: Final = frozenset(
    {"numpy:add", "numpy:subtract", "numpy:multiply"}
    | {f"numpy:bitwise_{name}" for name in ("and", "or", "xor")}
)
"""The functions whose result has the same bits for signed and for unsigned integers."""

Node = Callable[..., Any]
"""Adds a node: its type, and its inputs."""

Number = Callable[[float], Any]
"""Adds a number of the type of the inputs."""

COMPOSED: Final[Mapping[str, Callable[[Node, Number, Sequence[Any]], Any]]] = MappingProxyType(
    {
        "numpy:exp2": lambda node, number, x: node("Pow", number(2), x[0]),
        "numpy:expm1": lambda node, number, x: node("Sub", node("Exp", x[0]), number(1)),
        "numpy:log1p": lambda node, number, x: node("Log", node("Add", x[0], number(1))),
        "numpy:square": lambda node, number, x: node("Mul", x[0], x[0]),
        scalar("multiply_add"): lambda node, number, x: node("Add", node("Mul", x[0], x[1]), x[2]),
        scalar("reciprocal_root"): lambda node, number, x: node("Reciprocal", node("Sqrt", x[0])),
    }
)
"""Functions that are several nodes."""

SAME: Final = scalar("same")
CLAMPED: Final = scalar("clamped")

BY_RULE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max": "numpy:maximum",
        "min": "numpy:minimum",
        "neg": "numpy:negative",
        "select": "numpy:where",
    }
)
"""The functions of ops that do not name one, by the name in their rules."""


def has_nodes(path: str) -> bool:
    """Whether nodes compute a function of elements."""
    return path in (SAME, CLAMPED) or any(path in table for table in (NODES, ON_TRUTHS, COMPOSED))
