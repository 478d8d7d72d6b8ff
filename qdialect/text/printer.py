"""A printer of MLIR text that writes the elements of constants as MLIR does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer


class MLIRPrinter(Printer):
    """
    xDSL's printer, but for the elements of dense attributes.

    Their text is MLIR's, byte for byte: `mlir-opt` reads it as the same elements, down to
    the payload of a NaN and the sign of a zero. An operation is in generic form where the
    custom form of xDSL has no room for all of it. The attributes of an op
    are in the order of their names, as in MLIR: some ops have properties among them.
    """

    @property
    def names(self) -> Mapping[SSAValue, str]:
        """The names that values were printed with, without the percent sign."""
        return self._ssa_values

    @override
    def print_op(self, op: Operation) -> None:
        is_generic = self.print_generic_format
        self.print_generic_format |= _does_not_fit_custom_form(op)
        super().print_op(op)
        self.print_generic_format = is_generic

    @override
    def print_op_attributes(
        self,
        attributes: Mapping[str, Attribute],
        *,
        reserved_attr_names: Iterable[str] = (),
        print_keyword: bool = False,
    ) -> bool:
        return super().print_op_attributes(
            dict(sorted(attributes.items())),
            reserved_attr_names=reserved_attr_names,
            print_keyword=print_keyword,
        )

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        if not isinstance(attribute, DenseIntOrFPElementsAttr):
            super().print_attribute(attribute)
            return
        dense = cast(DenseIntOrFPElementsAttr[Any], attribute)
        type = dense.get_element_type()
        from qdialect.elements import elements_of
        from qdialect.text.dense import print_dense

        print_dense(self, elements_of(dense), type)
        self.print_string(" : ")
        super().print_attribute(dense.get_type())


def _does_not_fit_custom_form(op: Operation) -> bool:
    if op.name != "func.func":
        return False
    is_declaration = not op.regions[0].blocks
    return is_declaration and bool(op.properties.keys() & {"arg_attrs", "res_attrs"})
