"""Functions of other dialects: `ml_program.func private @f(%a: i32) -> i32 {...}`."""

from __future__ import annotations

from abc import ABC
from typing import Self

from typing_extensions import override
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, StringAttr
from xdsl.dialects.utils import parse_func_op_like
from xdsl.ir import Attribute, Operation
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface


class _FunctionOp(Operation, ABC):
    """Base class of the ops. They are printed in generic form."""

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {}
        if (visibility := parser.parse_optional_visibility_keyword()) is not None:
            properties["sym_visibility"] = visibility
        name, inputs, outputs, region, attributes, argument_attributes, result_attributes = (
            parse_func_op_like(
                parser, reserved_attr_names=("sym_name", "function_type", "sym_visibility")
            )
        )
        properties["sym_name"] = StringAttr(name)
        properties["function_type"] = FunctionType.from_lists(inputs, outputs)
        if argument_attributes is not None:
            properties["arg_attrs"] = argument_attributes
        if result_attributes is not None:
            properties["res_attrs"] = result_attributes
        return cls.create(
            properties=properties,
            attributes={} if attributes is None else dict(attributes.data),
            regions=[region],
        )


class ProgramFuncOp(_FunctionOp):
    """A function of a program: https://mlir.llvm.org/docs/Dialects/MLProgramOps/."""

    name = "ml_program.func"


class SubgraphOp(_FunctionOp):
    """A function whose body is a graph: https://mlir.llvm.org/docs/Dialects/MLProgramOps/."""

    name = "ml_program.subgraph"


class ShapeFuncOp(_FunctionOp):
    """A function of shapes: https://mlir.llvm.org/docs/Dialects/ShapeDialect/."""

    name = "shape.func"


class FunctionLibraryOp(Operation):
    """Functions of shapes, by ops: `shape.function_library @a {...} mapping {my.op = @same}`."""

    name = "shape.function_library"

    traits = traits_def(SymbolOpInterface(), NoTerminator())

    @classmethod
    @override
    def parse(cls, parser: Parser) -> Self:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region()
        parser.parse_keyword("mapping")
        properties["mapping"] = DictionaryAttr(parser.parse_optional_attr_dict())
        return cls.create(
            properties=properties,
            attributes={} if attributes is None else dict(attributes.data),
            regions=[region],
        )
