"""
The conversion of types in a module, by the rules of MLIR's dialect conversion.

https://mlir.llvm.org/docs/DialectConversion/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.dialects import func
from qdialect.dialects.quant.casts import CastOp, is_rounding
from qdialect.ir.errors import OpErrors
from qdialect.ir.rewriting import Replacements, dependencies_first
from qdialect.ir.xdsl_private import set_type
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.support.memory import MemoryLimitError, memory_budget


def functions_in(module: ModuleOp) -> list[FuncOp]:
    """The functions at the top level of a module, on which MLIR runs a function pass."""
    return [op for op in module.body.ops if isinstance(op, FuncOp)]


def converted_ops(root: Operation) -> Iterator[Operation]:
    """
    `root` and the ops in it, except those in unreachable blocks.

    Ops come before those in their regions, and blocks in the order of the text.
    """
    pending: list[Iterator[Operation]] = [iter((root,))]
    while pending:
        op = next(pending[-1], None)
        if op is None:
            pending.pop()
            continue
        yield op
        if op.regions:
            pending.append(_ops_of(op.regions))


def _ops_of(regions: Iterable[Region]) -> Iterator[Operation]:
    for region in regions:
        for block in reachable_blocks(region):
            yield from block.ops


def reachable_blocks(region: Region) -> Iterator[Block]:
    """The blocks of a region that are reachable from the first one, in the order of the text."""
    if (first := region.first_block) is None:
        return
    reached = set(dependencies_first([first], _successors))
    yield from (block for block in region.blocks if block in reached)


def _successors(block: Block) -> Sequence[Block]:
    return () if block.last_op is None else block.last_op.successors


def fold_casts(casts: Iterable[CastOp], replacements: Replacements) -> set[CastOp]:
    """
    Find the casts that undo another cast, and add their replacements to `replacements`.

    All folds are decided before anything is changed, as in MLIR. Casts that lose their last use
    are left alone.
    """
    folded: set[CastOp] = set()
    for op in casts:
        for value in op.fold() or ():
            # In a graph region, casts may undo each other.
            if isinstance(value, SSAValue) and replacements.final(value) is not op.result:
                replacements.add(op.result, value)
                folded.add(op)
    return folded


def drop_folded_casts(casts: Iterable[CastOp]) -> int:
    """
    Replace casts that undo another one, and erase them: see `fold_casts`.

    Returns the number of values that are no longer rounded.
    """
    replacements = Replacements()
    folded = fold_casts(casts, replacements)
    count = sum(map(is_rounding, folded))
    replacements.apply()
    for op in folded:
        Rewriter.erase_op(op)
    return count


def reserve_for(op: Operation, nbytes: int) -> None:
    """
    Reserve bytes for the constants that `op` is lowered to, in the budget of the run.

    Raises OpErrors if too few are left.
    """
    try:
        with memory_budget() as budget:
            budget.reserve(nbytes)
    except MemoryLimitError as error:
        raise OpErrors.of(op, f"cannot be lowered: {error} [{RefusalCode.MEMORY}]") from error


class TypeConversion:
    """
    A map from types to types. Each type object is converted once.

    Results are cached by identity, not by value: hashing a type with nested aliases may take
    exponential time.
    """

    def __init__(self, convert: Callable[[Attribute], Attribute | None]) -> None:
        """
        `convert` returns the type that replaces one: the same object if it is kept, None if it
        cannot be converted.
        """
        self._convert = convert
        self._known: dict[int, tuple[Attribute, Attribute | None]] = {}
        """The converted types by `id`: the type, which keeps the id valid, and its replacement."""

    def of(self, type: Attribute) -> Attribute | None:
        """The type that replaces `type`."""
        if (known := self._known.get(id(type))) is None:
            known = self._known[id(type)] = type, self._convert(type)
        return known[1]

    def converts(self, type: Attribute) -> bool:
        """Whether the conversion changes `type`."""
        return self.of(type) is not type

    def convert_value(self, value: SSAValue) -> None:
        """Convert the type of a value in place."""
        type = self.of(value.type)
        assert type is not None
        # A new value would require copying its op, or all arguments of its block.
        set_type(value, type)

    def convert_function(self, op: FuncOp) -> None:
        """Convert the types in the signature of a function, but not its values."""
        signature = op.function_type
        ends = [[self.of(type) for type in end] for end in (signature.inputs, signature.outputs)]
        inputs, outputs = ([type for type in end if type is not None] for end in ends)
        op.function_type = FunctionType.from_lists(inputs, outputs)


def refuse_function_constants(op: Operation, types: TypeConversion) -> None:
    """
    Raise OpErrors if `op` is a constant that refers to a function whose type changes.

    As in MLIR, types nested in a function type are not converted.
    """
    if name_of(op) != func.CONSTANT:
        return
    for type in op.result_types:
        if isinstance(type, FunctionType) and any(
            types.converts(end) for end in (*type.inputs, *type.outputs)
        ):
            raise OpErrors([(op, f"'{name_of(op)}' op reference to function with mismatched type")])
