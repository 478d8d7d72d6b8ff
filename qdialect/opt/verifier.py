"""Verification with the location of each invalid operation, and without printing the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait, SymbolTable
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.errors import (
    VerifiedByAttributes,
    VerifiedPart,
    message_of,
    op_name,
    verify_alone,
    verify_call,
)
from qdialect.ir.names import symbol_table_of
from qdialect.ir.xdsl_private import own_verifier_of
from qdialect.opt.diagnostics import DiagnosticHandler, Location
from qdialect.support.memory import registered_cache
from qdialect.text.syntax import syntax_of_op


class ModuleVerifier:
    """
    Verifies a module operation by operation, and reports invalid ones with their locations.

    xDSL's own `verify` prints the whole module into its error, constants included. As in mlir-opt,
    verification of each op that is isolated from above ends at its first invalid operation.
    """

    def __init__(self, locate: Callable[[Operation], Location], handler: DiagnosticHandler) -> None:
        self._locate = locate
        self._handler = handler
        self._valid: set[_Key] = set()
        """Keys of ops that were found valid. A module does not change while it is verified."""
        self._symbols: dict[Operation, dict[str, Operation]] = {}
        """The symbols that an op defines in its region, by name."""

    def verify(self, op: Operation) -> bool:
        """Whether an operation and all nested operations are valid."""
        for region in op.regions:
            for block in region.blocks:
                if not self._verify_block(block):
                    return False
        try:
            _verify_place(op)
            key = _key(op)
            if key is None or key not in self._valid:
                syntax_of_op(op.name).verify(op, self._verify_alone)
            if key is not None:
                self._valid.add(key)
        except VerifyException as error:
            if (again := _redefinition(op)) is not None:
                symbol, first = again
                name = cast(StringAttr, symbol.get_attr_or_prop("sym_name")).data
                self._handler.error(f"redefinition of symbol named '{name}'", self._locate(symbol))
                self._handler.note("see existing symbol definition here", self._locate(first))
                return False
            return self._refuse(op, message_of(error))
        except Exception:
            # The verifier itself fails on a malformed op, such as one with too few operands.
            message = f"'{op_name(op)}' op cannot be verified: its verifier fails on it"
            return self._refuse(op, message)
        return True

    def _verify_alone(self, op: Operation) -> None:
        if "callee" in op.properties:
            verify_call(op, self._callee_of(op))
        else:
            verify_alone(op)

    def _verify_block(self, block: Block) -> bool:
        is_valid = True
        for op in block.ops:
            if not self.verify(op):
                is_valid = False
                if not op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
                    return False
        parent = block.parent_op()
        if block.last_op is None and parent is not None and _needs_terminator(block):
            return self._refuse(parent, "empty block: expect at least a terminator")
        return is_valid

    def _callee_of(self, call: Operation) -> Operation | None:
        """
        The op that defines the symbol of a call; None if there is none, or the symbol is nested.
        """
        callee, table = call.properties.get("callee"), symbol_table_of(call)
        if table is None or not isinstance(callee, SymbolRefAttr) or callee.nested_references:
            return None
        if (symbols := self._symbols.get(table)) is None:
            symbols = self._symbols[table] = {}
            for op in (inner for block in table.regions[0].blocks for inner in block.ops):
                if isinstance(name := op.get_attr_or_prop("sym_name"), StringAttr):
                    symbols.setdefault(name.data, op)
        return symbols.get(callee.root_reference.data)

    def _refuse(self, op: Operation, message: str) -> bool:
        self._handler.error(message, self._locate(op))
        return False


def _redefinition(op: Operation) -> tuple[Operation, Operation] | None:
    """The first op of a symbol table that has the name of an earlier one, and that one."""
    if not op.has_trait(SymbolTable, value_if_unregistered=False) or len(op.regions) != 1:
        return None
    seen = dict[Attribute, Operation]()
    for symbol in (inner for block in op.regions[0].blocks for inner in block.ops):
        name = symbol.get_attr_or_prop("sym_name")
        if isinstance(name, StringAttr) and seen.setdefault(name, symbol) is not symbol:
            return symbol, seen[name]
    return None


_Key = tuple[object, ...]


def _key(op: Operation) -> _Key | None:
    """
    A cache key: ops with equal keys get the same verdict.

    None if the verifier may read more than attributes, which are compared by identity.
    """
    looked_at = _looked_at_by(type(op))
    if looked_at is None or op.regions or op.successor_uses:
        return None
    attributes = looked_at(op)
    if attributes is None:
        return None
    names = (*op.properties, None, *op.attributes)
    parts = [part if type(part) is tuple else id(part) for part in attributes]
    return (type(op), len(op.operands), len(op.results), *names, *parts)


@registered_cache
@cache
def _looked_at_by(
    cls: type[Operation],
) -> Callable[[Any], Sequence[VerifiedPart] | None] | None:
    """
    A function that returns the attributes that the verifiers of a class read; None if unknown.
    """
    if cls.verify is not Operation.verify:
        return None
    if issubclass(cls, VerifiedByAttributes):
        return cls.verified_attributes
    return _attributes if _is_verified_by_constraints(cls) else None


def _attributes(op: Operation) -> Sequence[Attribute]:
    named = (*op.properties.values(), *op.attributes.values())
    return (*op.operand_types, *op.result_types, *named)


def _is_verified_by_constraints(cls: type[Operation]) -> bool:
    """Whether the verifier of a class checks IRDL constraints on attributes and nothing else."""
    if not issubclass(cls, IRDLOperation):
        return False
    traits = cls.get_irdl_definition().traits
    return own_verifier_of(cls) is Operation.verify_ and all(
        type(trait).verify is OpTrait.verify for trait in traits
    )


def _needs_terminator(block: Block) -> bool:
    """Whether a block must end in a terminator, even if it is empty."""
    region, parent = block.parent, block.parent_op()
    if region is None or parent is None:
        return False
    if region.first_block is not region.last_block:
        return block.last_op is not None
    return not parent.has_trait(NoTerminator)


def _verify_place(op: Operation) -> None:
    """Raise VerifyException if an op uses an erased value, or is at an illegal place."""
    if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
        raise VerifyException(f"'{op_name(op)}' op uses a value that was erased")
    if op.next_op is not None and not op.successor_uses:
        return
    block = op.parent_block()
    is_last = block is not None and block.last_op is op
    if op.successors:
        if block is None or not is_last:
            raise VerifyException(
                f"'{op_name(op)}' op with block successors must terminate its parent block"
            )
        if any(successor.parent is not block.parent for successor in op.successors):
            raise VerifyException(f"'{op_name(op)}' op branches to a block of a different region")
    lacks_terminator = block is not None and is_last and _needs_terminator(block)
    if lacks_terminator and not op.has_trait(IsTerminator):
        raise VerifyException(f"block with no terminator, has '{op_name(op)}' last")
