"""The names of imported values, and the constants that are their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseResourceAttr,
    FunctionType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.ir.elements import dense_elements, element_dtype
from qdialect.ir.names import identifier_of, kept_name
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import tensor_parts
from qdialect.ops.interface import elements_attribute_of, held_elements
from qdialect.support.lazy_numpy import np


def name_arguments(module: ModuleOp, names: Sequence[str] = ()) -> None:
    """Name the arguments of the first function like `names`, or else like their locations."""
    function = next((op for op in module.walk() if isinstance(op, FuncOp)), None)
    if function is None or function.is_declaration:
        return
    arguments = function.body.block.args
    if len(names) == len(arguments):
        for argument, name in zip(arguments, names, strict=True):
            argument.location = NameLoc(StringAttr(name), NoneAttr())
    for argument in arguments:
        _name(argument, argument.location)


def name_values(module: ModuleOp) -> None:
    """
    Name the tensors that ops of functions compute like their locations.

    Of several ops with one location, the last one has the result of the node: it has the name, and
    the locations of the others get a number.
    """
    for function in module.walk():
        if not isinstance(function, FuncOp) or function.is_declaration:
            continue
        by_name = dict[str, list[Operation]]()
        for op in function.body.block.ops:
            if isinstance(op.location, NameLoc) and op.results:
                by_name.setdefault(op.location.desc.data, []).append(op)
        for name, (*others, last) in by_name.items():
            for result in last.results:
                _name(result, last.location)
            for number, op in enumerate(others):
                op.location = NameLoc(StringAttr(f"{name}:{number}"), NoneAttr())


def _name(value: SSAValue, location: Attribute) -> None:
    if isinstance(location, NameLoc) and tensor_parts(value.type) is not None:
        value.name_hint = kept_name(identifier_of(location.desc.data))


def name_resources(module: ModuleOp, names: Iterable[str]) -> None:
    """Name the constants whose elements are a resource with the identifier of one of the names."""
    by_key = {identifier_of(name): name for name in names}
    for op in module.walk():
        attribute = None if elements_attribute_of(op) is None else held_elements(op)
        if isinstance(attribute, DenseResourceAttr):
            key = attribute.resource_handle.data
            if key in by_key:
                op.location = NameLoc(StringAttr(by_key[key]), NoneAttr())
                _name(op.results[0], op.location)


def insert_weights(
    module: ModuleOp, weights: Mapping[str, Callable[[], bytes]], kept: ResourceBlobs | None
) -> None:
    """
    Replace the last arguments of the first function, one for each weight, by constants.

    Their elements are resources that are kept, or are in the module.
    """
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    block = function.body.block
    count = len(block.args) - len(weights)
    point = InsertPoint.at_start(block)
    for argument, (name, read) in zip(tuple(block.args)[count:], weights.items(), strict=True):
        parts = tensor_parts(argument.type)
        assert parts is not None
        element, data = cast(Any, parts.element_type), read()
        values = np.frombuffer(data, element_dtype(element)).reshape(parts.shape)
        resource = None if kept is None else kept.write(values, element, identifier_of(name))
        op = ConstantOp(resource or dense_elements(values, element), argument.type)
        op.location = argument.location
        op.results[0].name_hint = argument.name_hint
        Rewriter.insert_op(op, point)
        argument.replace_all_uses_with(op.results[0])
        block.erase_arg(argument)
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    function.function_type = FunctionType.from_lists(inputs[:count], outputs)
    if function.arg_attrs is not None:
        function.arg_attrs = ArrayAttr(function.arg_attrs.data[:count])
