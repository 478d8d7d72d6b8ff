"""A printer of MLIR text that writes the elements of constants as MLIR does."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.printer import Printer

from qdialect.dialects.builtin import Blob, BlobStorage


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

    def print_module(self, context: Context, module: ModuleOp) -> None:
        """
        Print a module, the resources that it names in `context`, and a line break.

        Raises OSError if the stream does.
        """
        self.print_op(module)
        self.print_metadata(context.loaded_dialects)
        self.print_string("\n", indent=0)

    def print_ascii(self, text: memoryview) -> None:
        """
        Print a piece of a line, ASCII, that is gone through to the file if there is one.

        Raises OSError if that cannot be written.
        """
        stream = sys.stdout if self.stream is None else self.stream
        self._current_column += len(text)
        if (file := getattr(stream, "buffer", None)) is None:
            stream.write(str(text, "ascii"))
        else:
            stream.flush()
            file.write(text)

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
    def print_metadata(self, dialects: Iterable[Dialect]) -> None:
        """Print the blobs of the resources that attributes have named, streamed."""
        storages = {
            dialect.name: storage
            for dialect in dialects
            if (storage := dialect.get_interface(OpAsmDialectInterface)) is not None
        }
        found = {
            name: resources
            for name, keys in self._dialect_resources.items()
            if (resources := _find_resources(storages[name], keys))
        }
        if not found:
            return
        self.print_string("\n\n{-#\n  dialect_resources: {\n", indent=0)
        self.print_list(found.items(), lambda item: self._print_resources(*item), ",\n")
        self.print_string("\n  }\n#-}", indent=0)

    def _print_resources(self, dialect: str, resources: Mapping[str, Blob | str]) -> None:
        self.print_string(f"    {dialect}: {{\n", indent=0)
        self.print_list(resources.items(), lambda item: self._print_resource(*item), ",\n")
        self.print_string("\n    }", indent=0)

    def _print_resource(self, key: str, resource: Blob | str) -> None:
        from qdialect.text.dense import print_hex

        self.print_string(f'      {key}: "')
        if isinstance(resource, str):
            self.print_string(resource)
        else:
            self.print_string("0x")
            print_hex(self, resource.alignment)
            print_hex(self, resource.elements)
        self.print_string('"')

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


def _find_resources(storage: OpAsmDialectInterface, keys: Collection[str]) -> dict[str, Blob | str]:
    """What those keys stand for that stand for something."""
    if isinstance(storage, BlobStorage):
        return storage.resources(keys)
    return dict(storage.build_resources(sorted(keys)))


def _does_not_fit_custom_form(op: Operation) -> bool:
    if op.name != "func.func":
        return False
    is_declaration = not op.regions[0].blocks
    return is_declaration and bool(op.properties.keys() & {"arg_attrs", "res_attrs"})
