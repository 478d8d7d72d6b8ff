"""Verifying a single op, and the attributes its verifier reads: equal ops are verified once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from inspect import signature

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Attribute, Operation, OpTraits
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.traits import SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from qdialect.support.bounded_cache import registered_cache

VerifiedPart = Attribute | tuple[object, ...]
"""A part of an op that a verifier reads. Attributes compare by identity, tuples by their values."""


class VerifiedByAttributes(IRDLOperation, ABC):
    """
    A base class of ops whose verifier reads nothing but attributes.

    `qdialect.opt.verifier` uses them as a cache key, as most ops of a large module have equal
    keys.
    """

    def verified_attributes(self) -> Sequence[VerifiedPart] | None:
        """
        Everything that the verifier reads, besides the class and the number of operands.

        None if the verifier of this op reads more than attributes.
        """
        return (*self.operand_types, *self.result_types, *self.properties.values())


def verify_alone(op: Operation) -> None:
    """
    Call the verifiers of an op, but not those of the ops in its regions.

    Raises VerifyException, without the printed module that `Operation.verify` adds to it.
    """
    try:
        op.verify_()
    except VerifyException:
        if not _misses_a_symbol(op):
            raise
    # xDSL's `verify` walks the regions. An override of it has checks of its own.
    match _takes_verify_nested_ops(type(op)):
        case None:
            pass
        case True:
            op.verify(verify_nested_ops=False)
        case False:
            op.verify()


def verify_call(op: Operation, callee: Operation | None) -> None:
    """
    Like `verify_alone`, for a `func.call` whose symbol is defined by `callee`.

    xDSL looks through all functions for each call. Raises VerifyException.
    """
    # Deferred: a module without calls does not need it.
    from xdsl.dialects.func import CallOp, FuncOp

    if (
        type(op) is CallOp
        and isinstance(callee, FuncOp)
        and callee.function_type.inputs.data == tuple(op.operand_types)
        and callee.function_type.outputs.data == tuple(op.result_types)
    ):
        _without_symbols(CallOp).verify(op)
    else:
        verify_alone(op)


@registered_cache
@cache
def _without_symbols(cls: type[IRDLOperation]) -> OpDef:
    """The definition of a class of ops, without the verification of the symbols that they use."""
    definition = cls.get_irdl_definition()
    traits = tuple(each for each in cls.traits if not isinstance(each, SymbolUserOpInterface))
    return replace(definition, traits=OpTraits(lambda: traits))


def _misses_a_symbol(op: Operation) -> bool:
    """
    Whether an op is invalid only because xDSL searches its symbol in an unregistered op.

    xDSL treats each unregistered op, such as a loop around a call, as a symbol table.
    """
    trait, around = op.get_trait(SymbolUserOpInterface), op.parent_op()
    if trait is None:
        return False
    while around is not None and not around.has_trait(SymbolTable):
        around = around.parent_op()
    if not isinstance(around, UnregisteredOp):
        return False
    try:
        trait.verify(op)
    except VerifyException:
        return True
    return False


@registered_cache
@cache
def _takes_verify_nested_ops(cls: type[Operation]) -> bool | None:
    """Whether the class' own `verify` has the parameter; None if the class does not override it."""
    if cls.verify is Operation.verify:
        return None
    parameters = signature(cls.verify).parameters.values()
    return any(
        each.name == "verify_nested_ops" or each.kind is each.VAR_KEYWORD for each in parameters
    )
