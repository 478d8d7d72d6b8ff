"""
The ops of linalg that compute with floats: https://mlir.llvm.org/docs/Dialects/Linalg/.

What is quantized are the inputs: what a result starts with is not.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, cast

from xdsl.dialects.builtin import ArrayAttr, FloatAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from qdialect.relations.interface import (
    OpRelation,
    Relation,
    function_of,
    register_relations,
    relation,
    relation_of,
)
from qdialect.shape_ops.interface import attribute_of, name_of

register_relations(
    "linalg", "abs erf exp log negf=neg reciprocal rsqrt sqrt square", Relation.OWN, (0,)
)
register_relations(
    "linalg", "add div div_unsigned=div max min mul powf=pow sub", Relation.OWN, (0, 1)
)
register_relations("linalg", "tanh", Relation.FIXED, (0,), fixed="tanh")
register_relations("linalg", "softmax", Relation.FIXED, (0,), fixed="softmax")
register_relations("linalg", "ceil floor round", Relation.WHOLE_NUMBER, (0,))
register_relations("linalg", "select", Relation.SHARED, (1, 2))
register_relations("linalg", "copy", Relation.SHARED, (0,))
_POOLS: Final = {"nwc": (1,), "ncw": (2,), "nhwc": (1, 2), "nchw": (2, 3), "ndhwc": (1, 2, 3)}
"""The axes of the windows of pools, by the layout in their names."""

for _layout, _axes in _POOLS.items():
    for _kind, _relation in (("max", Relation.SHARED), ("sum", Relation.OWN)):
        register_relations(
            "linalg",
            f"pooling_{_layout}_{_kind}",
            _relation,
            (0,),
            is_homogeneous=True,
            mixed_axes=_axes,
        )

_LOGISTIC: Final = ["arith.negf", "math.exp", "arith.addf", "arith.divf"]
"""How torch-mlir writes `1 / (1 + exp(-x))`."""

_YIELD: Final = "linalg.yield"
_CONSTANT: Final = "arith.constant"


@relation("linalg.generic", "linalg.map", "linalg.reduce")
def _with_body(op: Operation) -> OpRelation | None:
    """An op that computes each element of its result by ops of arith and math."""
    body = op.regions[0].block
    ops = [inner for inner in body.ops if name_of(inner) not in (_YIELD, _CONSTANT)]
    names = [name_of(inner) for inner in ops]
    if any(not _is_function(inner) for inner in ops):
        return None
    inputs = _inputs(op, body)
    if inputs is None:
        return None
    functions = frozenset(map(function_of, names))
    if name_of(op) == "linalg.reduce" or _has_reduction(op):
        return OpRelation(Relation.OWN, inputs, functions | {"reduce"})
    if names == _LOGISTIC and _is_logistic(ops):
        return OpRelation(Relation.FIXED, inputs, functions, fixed="logistic")
    if len(ops) == 1 and (only := relation_of(ops[0])) is not None:
        return OpRelation(only.relation, _chosen(op, ops[0], only), functions, only.fixed)
    if not ops:
        return OpRelation(Relation.SHARED, inputs[:1] if len(inputs) == 1 else inputs)
    return OpRelation(Relation.OWN, inputs, functions)


def _is_function(op: Operation) -> bool:
    dialect = name_of(op).partition(".")[0]
    return dialect in ("arith", "math") and not op.regions


def _inputs(op: Operation, body: Block) -> tuple[int, ...] | None:
    """The numbers of the inputs that the body reads."""
    count = len(op.operands) - len(op.results)
    if count < 0:
        return None
    return tuple(at for at in range(count) if body.args[at].first_use is not None)


def _chosen(op: Operation, only: Operation, read: OpRelation) -> tuple[int, ...]:
    """The inputs that the one op of a body reads as its quantized operands."""
    chosen = only.operands if read.operands is None else [only.operands[at] for at in read.operands]
    count = len(op.operands) - len(op.results)
    numbers = [_number(value) for value in chosen]
    return tuple(at for at in dict.fromkeys(numbers) if at is not None and at < count)


def _number(value: SSAValue) -> int | None:
    return value.index if isinstance(value, BlockArgument) else None


def _has_reduction(op: Operation) -> bool:
    if name_of(op) != "linalg.generic":
        return False
    kinds = cast("ArrayAttr[Attribute]", attribute_of(op, "iterator_types"))
    return any("parallel" not in str(kind) for kind in kinds.data)


def _is_logistic(ops: list[Operation]) -> bool:
    """Whether each op reads the result of the one before, and otherwise ones."""
    for before, after in pairwise(ops):
        others = [each for each in after.operands if each is not before.results[0]]
        if len(others) == len(after.operands) or not all(map(_is_one, others)):
            return False
    return ops[-1].operands[1] is ops[-2].results[0]


def _is_one(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(owner, Operation) or name_of(owner) != _CONSTANT:
        return False
    held = attribute_of(owner, "value")
    return isinstance(held, FloatAttr) and held.value.data == 1
