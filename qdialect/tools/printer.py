"""A printer of MLIR text that writes the elements of constants as MLIR does."""

from __future__ import annotations

from typing import cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute
from xdsl.printer import Printer

from qdialect.elements import DenseElementsAttr, elements_of, print_dense


class MLIRPrinter(Printer):
    """
    xDSL's printer, but for the integer elements of dense attributes.

    Their hexadecimal text has MLIR's layout, which `mlir-opt` reads as the same integers
    at any width, and none of them becomes a Python number on the way.
    """

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            super().print_attribute(attribute)
            return
        integers = cast(DenseElementsAttr, attribute)
        # As `cast` has it, but it may be of floats or complex numbers.
        element_type = cast(Attribute, integers.get_element_type())
        if not isinstance(element_type, IntegerType):
            super().print_attribute(attribute)
            return
        print_dense(self, elements_of(integers), integers.get_element_type())
        self.print_string(" : ")
        super().print_attribute(integers.get_type())
