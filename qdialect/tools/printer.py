"""A printer of MLIR text that writes the elements of constants as MLIR does."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer


class MLIRPrinter(Printer):
    """
    xDSL's printer, but for the integer elements of dense attributes.

    Their hexadecimal text has MLIR's layout, which `mlir-opt` reads as the same integers
    at any width, and none of them becomes a Python number on the way. A declaration whose
    arguments or results have attributes is in generic form, since xDSL's custom form of it
    has no room for them.
    """

    @property
    def names(self) -> Mapping[SSAValue, str]:
        """The names that values were printed with, without the percent sign."""
        return self._ssa_values

    @override
    def print_op(self, op: Operation) -> None:
        is_generic = self.print_generic_format
        if op.name == "func.func" and not op.regions[0].blocks:
            self.print_generic_format |= bool(op.properties.keys() & {"arg_attrs", "res_attrs"})
        super().print_op(op)
        self.print_generic_format = is_generic

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            super().print_attribute(attribute)
            return
        dense = cast(DenseIntOrFPElementsAttr[Any], attribute)
        if isinstance(type := dense.get_element_type(), IntegerType):
            from qdialect.elements import elements_of, print_dense

            print_dense(self, elements_of(dense), cast(IntegerType, type))
            self.print_string(" : ")
            super().print_attribute(dense.get_type())
        else:
            super().print_attribute(dense)
