"""The modules of a comparison, and the effects of their ops and of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    ModuleOp,
    NoneType,
    TensorType,
    TupleType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffect, RecursiveMemoryEffect

from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.names import symbol_table_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import circular, dependencies_first
from qdialect.ir.value_types import tensor_parts, type_name
from qdialect.ops.interface import is_list, op_model
from qdialect.ops.model import Effects, OpModel, traits_of

_VALUES: Final = (
    AnyFloat,
    ComplexType,
    IndexType,
    IntegerType,
    NoneType,
    StoredType,
    TensorType,
    UnrankedTensorType,
    VectorType,
)


class CallEffects:
    """The effects of the ops of one module and of calls to its functions."""

    def __init__(self, module: ModuleOp, functions: Mapping[str, FuncOp]) -> None:
        self._module = module
        self._functions = functions
        self._known: dict[Operation, Effects] = {}
        self._of_functions: dict[str, Effects] = {}
        self._fixed_lists: dict[SSAValue, bool] = {}
        for name in dependencies_first(functions, self.called_by):
            function = functions[name]
            self._of_functions[name] = (
                Effects.ANY if function.is_declaration else self._of_regions(function)
            )

    def of_function(self, name: str, missing: Effects = Effects.ANY) -> Effects:
        """The effects of calling the function `name`; `missing` if the module has none."""
        return self._of_functions.get(name, missing)

    @cached_property
    def on_circles(self) -> set[str]:
        """The names of the functions that may call themselves, directly or through others."""
        return circular(self._functions, self.called_by)

    def callee_of(self, op: Operation) -> FuncOp | None:
        """The function of the module that an op calls; None if it is not such a call."""
        if not isinstance(op, CallOp):
            return None
        is_here = symbol_table_of(op) is self._module
        return self._functions.get(op.callee.string_value()) if is_here else None

    def of(self, op: Operation) -> Effects:
        """The effects of an op, including those of its regions."""
        if (known := self._known.get(op)) is None:
            known = self._known[op] = self._of(op)
        return known

    def of_ops(self, ops: Iterable[Operation]) -> Effects:
        """The effects of several ops."""
        return max(map(self.of, ops), default=Effects.NONE)

    def _of(self, op: Operation) -> Effects:
        if isinstance(op, CallOp):
            callee = self.callee_of(op)
            return Effects.ANY if callee is None else self.of_function(callee.sym_name.data)
        own = self._without_regions(op)
        return own if own is Effects.ANY else max(own, self._of_regions(op))

    def _without_regions(self, op: Operation) -> Effects:
        model = op_model(op)
        if model.is_control:
            return model.effects
        if (stated := _stated(model)) is not Effects.ANY:
            are_values = all(map(self._is_value, (*op.operands, *op.results)))
            return stated if are_values else Effects.ANY
        if not _says_nothing_of_memory(op):
            return Effects.ANY
        # An op that makes a tensor of a buffer reads it, whatever its traits are.
        makes_tensor = any(tensor_parts(type) is not None for type in op.result_types)
        is_pure = not makes_tensor or all(map(self._is_value, op.operands))
        return Effects.NONE if is_pure else Effects.ANY

    def _is_value(self, value: SSAValue) -> bool:
        """Whether nothing can change a value after it is computed."""
        name = type_name(value.type)
        traits = traits_of(name.partition(".")[0])
        if traits is None or name not in traits.lists:
            return _has_value_semantics(value.type)
        if (known := self._fixed_lists.get(value)) is None:
            owner = value.owner
            known = self._fixed_lists[value] = (
                isinstance(owner, Operation)
                and is_list(owner)
                and all(_stated(op_model(use.operation)) is not Effects.ANY for use in value.uses)
            )
        return known

    def _of_regions(self, op: Operation) -> Effects:
        effects = [self.of_ops(_ops_of_blocks(op))] if op.regions else []
        if any(len(region.blocks) > 1 for region in op.regions):
            effects.append(Effects.UNDEFINED)
        return max(effects, default=Effects.NONE)

    def called_by(self, name: str) -> Iterator[str]:
        """The names of the functions that the function `name` calls, once for each call."""
        for op in self._functions[name].walk():
            if (callee := self.callee_of(op)) is not None:
                yield callee.sym_name.data


def _ops_of_blocks(op: Operation) -> Iterator[Operation]:
    """The ops in the regions of `op`, except terminators that only yield or branch."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if not (inner is block.last_op and is_plain_terminator(inner)):
                    yield inner


def is_plain_terminator(op: Operation) -> bool:
    """Whether the last op of a block only transfers control and values."""
    model = op_model(op)
    is_plain = model.is_control and not op.regions and model.effects is Effects.NONE
    return isinstance(op, ReturnOp) or model.yields or is_plain


def is_terminator(op: Operation) -> bool:
    """Whether the last op of a block is a terminator; an unregistered op may be one."""
    return not op.results or bool(op.successors) or op.has_trait(IsTerminator)


def _says_nothing_of_memory(op: Operation) -> bool:
    """Whether the traits of an op tell that it neither reads nor writes memory, beside regions."""
    traits = op.get_traits_of_type(MemoryEffect)
    own = [trait for trait in traits if not isinstance(trait, RecursiveMemoryEffect)]
    return bool(own) and all(trait.get_effects(op) == set() for trait in own)


def _stated(model: OpModel) -> Effects:
    """The effects that a model states, on operands that are values; none if it reads elements."""
    is_read = model.reads_elements or model.integers is not None
    return Effects.NONE if is_read else model.effects


def _has_value_semantics(type: Attribute) -> bool:
    """Whether a type is neither a reference to memory nor a token."""
    if isinstance(type, TupleType):
        return all(map(_has_value_semantics, type.types.data))
    if isinstance(type, _VALUES) or tensor_parts(type) is not None:
        return True
    name = type_name(type)
    traits = traits_of(name.partition(".")[0])
    return traits is not None and name in traits.values


# Modules


class Side(NamedTuple):
    """One of the two modules, and the context that it was parsed in."""

    module: ModuleOp
    context: Context


class ComparedModule:
    """A module of a comparison, with its functions, resources and effects."""

    def __init__(self, module: ModuleOp, context: Context) -> None:
        self.module = module
        self.functions: dict[str, FuncOp] = {
            op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)
        }
        """The functions at the top level, by name."""
        self.resources = ResourceBlobs.of(context)
        self.effects = CallEffects(module, self.functions)


@dataclass(eq=False)
class RunFailure(Exception):
    """A function could not be run."""

    reason: str
    op: Operation
