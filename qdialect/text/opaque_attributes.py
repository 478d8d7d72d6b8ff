"""Attributes and types that are kept as text."""

from __future__ import annotations

from typing_extensions import override
from xdsl.dialects.builtin import IntAttr, NoneAttr, StringAttr, UnregisteredAttr
from xdsl.ir import Attribute, BuiltinAttribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer


@irdl_attr_definition(init=False)
class OpaqueTextAttr(UnregisteredAttr):
    """
    An attribute of a dialect that is not registered: `#foo.bar<1>`, `#foo<"a">`.

    It is printed byte for byte as it was written, including line breaks and empty brackets.
    Unlike xDSL's, it may have a type: `#foo.bar<1> : i32`.
    """

    text: StringAttr
    """The text after `#`, without the type."""

    type: Attribute
    """The type, or NoneAttr."""

    @override
    def print_builtin(self, printer: Printer) -> None:
        # Without indentation, which would change the text.
        printer.print_string(f"#{self.text.data}", indent=0)
        if not isinstance(self.type, NoneAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.type)


@irdl_attr_definition(init=False)
class OpaqueTextType(UnregisteredAttr, TypeAttribute):
    """A type of a dialect that is not registered, printed as it was written: see OpaqueTextAttr."""

    text: StringAttr
    """The text after `!`."""

    @override
    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(f"!{self.text.data}", indent=0)


@irdl_attr_definition
class DenseStringsAttr(ParametrizedAttribute, BuiltinAttribute):
    """`dense<["a", "b"]> : tensor<2x!tf_type.string>`, whose elements are kept as text."""

    name = "dense_strings"

    elements: StringAttr
    """The text after `dense`, including the angle brackets."""

    type: TypeAttribute

    def __init__(self, elements: str, type: TypeAttribute) -> None:
        super().__init__(StringAttr(elements), type)

    @override
    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(f"dense{self.elements.data} : ", indent=0)
        printer.print_attribute(self.type)


@irdl_attr_definition
class BuiltinTextAttr(ParametrizedAttribute, BuiltinAttribute):
    """A builtin attribute that xDSL lacks, kept as text: `affine_map<()[s, t] -> (s * t)>`."""

    name = "builtin_text"

    text: StringAttr

    @override
    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(self.text.data, indent=0)


def opaque_type(name: str, value: str, text: str, *, is_opaque: bool) -> OpaqueTextType:
    """The type that is written `!text`; see `UnregisteredAttr` for the rest."""
    return OpaqueTextType.new(
        (StringAttr(name), IntAttr(1), IntAttr(int(is_opaque)), StringAttr(value), StringAttr(text))
    )


def opaque_attribute(
    name: str, value: str, text: str, type: Attribute | None, *, is_opaque: bool
) -> OpaqueTextAttr:
    """The attribute that is written `#text : type`; see `UnregisteredAttr` for the rest."""
    return OpaqueTextAttr.new(
        (
            StringAttr(name),
            IntAttr(0),
            IntAttr(int(is_opaque)),
            StringAttr(value),
            StringAttr(text),
            NoneAttr() if type is None else type,
        )
    )
