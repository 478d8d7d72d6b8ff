"""
Named weights as IREE and torch-mlir write them: globals whose value is a tensor of a file.

`util.global` with `#flow.parameter.named`, of IREE, and `ml_program.global` without a value:
https://iree.dev/guides/parameters/, https://mlir.llvm.org/docs/Dialects/MLProgramOps/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    DenseResourceAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnregisteredAttr,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.lexer import Input

from qdialect.algebra.views import Splat
from qdialect.dialects.quant.casts import StorageCastOp
from qdialect.dialects.quant.storage import StoredType
from qdialect.ir.errors import OpErrors
from qdialect.ir.names import symbols_of, symbols_used_by
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import Replacements
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import (
    Refusal,
    elements_attribute_of,
    find_attribute,
    held_elements,
    name_of,
)
from qdialect.ops.reading import Constants
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.text.attribute_parser import AttributeParser
from qdialect.text.text_attributes import parts_of_text, string_in
from qdialect.weights.tensor_files import DTYPE_OF_TYPE, PACKED, alignment, writing

NAMED: Final = ("flow.parameter.named", "stream.parameter.named")
"""The attributes that name a tensor of a scope, which the command line gives files for."""

_DTYPES: Final[Mapping[str, str]] = {**DTYPE_OF_TYPE, "i4": PACKED}
"""For each element type, its dtype in a file."""


class _Global(NamedTuple):
    """How a dialect writes globals."""

    load: str
    value: str
    """The name of the attribute with the value."""


_GLOBALS: Final[Mapping[str, _Global]] = {
    "util.global": _Global("util.global.load", "initial_value"),
    "ml_program.global": _Global("ml_program.global_load_const", "value"),
}


def constants_of_globals(module: ModuleOp) -> None:
    """
    Replace what loads globals that stand for tensors of files by constants without data.

    The key of each constant is that of the tensor. Globals that nothing refers to then are erased.
    """
    keys = {
        name: key
        for op in module.ops
        if (name := _symbol(op)) is not None and (key := _key_of(op)) is not None
    }
    loads = {form.load for form in _GLOBALS.values()}
    replaced = Replacements()
    for op in module.walk():
        symbol = find_attribute(op, "global") if name_of(op) in loads else None
        type = op.results[0].type if op.results else None
        key = keys.get(symbol.root_reference.data) if isinstance(symbol, SymbolRefAttr) else None
        if key is None or not isinstance(type, TensorType):
            continue
        replaced.put(op, [_constant(key, op.results[0], cast(TensorType[Attribute], type))])
    replaced.apply()
    used = set(symbols_used_by(module))
    for op in list(module.ops):
        if (name := _symbol(op)) in keys and name not in used:
            Rewriter.erase_op(op)


def _constant(key: str, value: SSAValue, type: TensorType[Attribute]) -> arith.ConstantOp:
    """A constant without data in the place of a value, with its name."""
    constant = arith.ConstantOp(DenseResourceAttr.from_params(key, type), type)
    constant.result.name_hint = value.name_hint
    return constant


def constants_of_arguments(module: ModuleOp, keys: Mapping[str, str]) -> None:
    """
    Replace arguments of functions by constants without data, which have these keys.

    An argument is named as `@main/%arg0`. Raises OpErrors if a function that loses one is called,
    or has no such argument.
    """
    left, errors = dict(keys), list[tuple[Operation, str]]()
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    called = set(symbols_used_by(module))
    for name, function in functions.items():
        block = None if function.is_declaration else function.body.block
        kept = list[int]()
        for number, argument in enumerate(() if block is None else block.args):
            key = left.pop(f"@{name}/%{argument.name_hint}", None)
            if key is None or block is None or not isinstance(argument.type, TensorType):
                kept.append(number)
                continue
            constant = _constant(key, argument, cast(TensorType[Attribute], argument.type))
            Rewriter.insert_op(constant, InsertPoint.at_start(block))
            argument.replace_all_uses_with(constant.result)
        if block is None or len(kept) == len(block.args):
            continue
        if name in called:
            errors.append((function, f"function '{name}' is called, and cannot lose arguments"))
        for number in reversed(range(len(block.args))):
            if number not in kept:
                block.erase_arg(block.args[number])
        inputs = [argument.type for argument in block.args]
        function.function_type = FunctionType.from_lists(inputs, [*function.function_type.outputs])
        if function.arg_attrs is not None:
            function.arg_attrs = ArrayAttr([function.arg_attrs.data[number] for number in kept])
    for place in left:
        errors.append((module, f"there is no argument '{place}' of a tensor type"))
    if errors:
        raise OpErrors(errors)


def _symbol(op: Operation) -> str | None:
    name = find_attribute(op, "sym_name") if name_of(op) in _GLOBALS else None
    return name.data if isinstance(name, StringAttr) else None


def _key_of(op: Operation) -> str | None:
    """The key of the tensor that a global stands for; None for others, and for mutable ones."""
    written = _GLOBALS.get(name_of(op))
    if written is None or find_attribute(op, "is_mutable") is not None:
        return None
    value = find_attribute(op, written.value)
    if not isinstance(value, UnregisteredAttr):
        return None
    if value.attr_name.data == "ml_program.extern":
        return _symbol(op)
    quoted = [piece for piece in parts_of_text(value.value.data) if piece.startswith('"')]
    if value.attr_name.data not in NAMED or not quoted:
        return None
    return string_in(quoted[-1])


@dataclass(frozen=True)
class WeightsToParametersPass(ModulePass):
    """
    Write constants whose elements are in files as `util.global` with `#flow.parameter.named`.

    So IREE loads them: `iree-run-module --parameters=model=weights.safetensors`. A constant of
    `quant` becomes a global of its integers, and `quant.scast`; codes of floats and of tables must
    be lowered to integers before. With `file`, large constants of the module are written to that
    file of safetensors, such as the scales of blocks, and become globals, too.

    Example: `qdialect-opt --weights=examples/weights/layer.safetensors --weights-to-parameters \
    examples/weights/layer.mlir`.
    """

    name = "weights-to-parameters"

    scope: str = "model"
    """The name of the files on IREE's command line."""

    file: str | None = None
    """The file that constants are written to."""

    least: int = 4096
    """The bytes of a constant that is written to it; smaller ones stay in the module."""

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        constants, module = Constants(ResourceBlobs.of(ctx)), op
        written: dict[str, tuple[str, NDArray[Any]]] = {}
        symbols = dict[str, str]()
        errors: list[tuple[Operation, str]] = []
        taken = {*symbols_of(module)}
        replaced = Replacements()
        for constant in list(module.walk()):
            if elements_attribute_of(constant) is None or len(constant.results) != 1:
                continue
            (result,) = constant.results
            stored = cast(Attribute, cast(Any, held_elements(constant)).type)
            if (unread := constants.unread(constant)) is not None:
                key = unread.key
            elif (new := self._large(constant, stored, constants)) is not None:
                key = f"{result.name_hint or 'constant'}_{len(written)}"
                while key in taken:
                    key += "_"
                written[key] = new
            else:
                continue
            quantized = element_type_or_self(result.type)
            if isinstance(quantized, StoredType) and quantized.non_integers is not None:
                errors.append((constant, f"'{name_of(constant)}' op {quantized.non_integers}"))
                continue
            if not isinstance(result.type, TensorType):
                errors.append((constant, f"'{name_of(constant)}' op is no builtin tensor"))
                continue
            if key not in symbols:
                symbols[key] = key
                while symbols[key] in taken:
                    symbols[key] += "_"
                taken.add(symbols[key])
                global_ = self._global(symbols[key], key, stored)
                Rewriter.insert_op(global_, InsertPoint.at_start(module.body.block))
            load = UnregisteredOp.with_name("util.global.load").create(
                properties={"global": SymbolRefAttr(symbols[key])}, result_types=[stored]
            )
            ops = [load]
            if isinstance(quantized, StoredType):
                ops.append(StorageCastOp(load.results[0], cast(Attribute, result.type)))
            ops[-1].results[0].name_hint = result.name_hint
            replaced.put(constant, ops)
        if errors:
            raise OpErrors(errors)
        if written:
            self._write(written)
        replaced.apply()

    def _large(
        self, constant: Operation, stored: Attribute, constants: Constants
    ) -> tuple[str, NDArray[Any]] | None:
        """The dtype in a file and the elements of a constant that is written to it."""
        dtype = _DTYPES.get(str(element_type_or_self(stored)))
        try:
            elements = constants.read(constant) if self.file and dtype else None
        except Refusal:
            return None
        if dtype is None or elements is None or isinstance(elements, Splat):
            return None
        return (dtype, elements) if elements.nbytes >= self.least else None

    def _write(self, written: Mapping[str, tuple[str, NDArray[Any]]]) -> None:
        assert self.file is not None
        tensors = [(key, dtype, array.shape) for key, (dtype, array) in written.items()]
        # Whole cache lines first, so that each tensor is aligned.
        tensors.sort(key=lambda new: -alignment(*new[1:]))
        try:
            with writing(Path(self.file), tensors) as file:
                for key, (_, array) in written.items():
                    file.write(key, array.reshape(-1).view(np.uint8).data, 0)
                file.finish()
        except OSError as error:
            reason = f"cannot write '{self.file}': {error.strerror}"
            raise PassFailedException(reason) from None

    def _global(self, symbol: str, key: str, type: Attribute) -> Operation:
        any_dialect = Context(allow_unregistered=True)
        any_dialect.load_dialect(Builtin)
        names = f"{StringAttr(self.scope)}::{StringAttr(key)}"
        text = Input(f"#flow.parameter.named<{names}> : {type}", "<global>")
        return UnregisteredOp.with_name("util.global").create(
            properties={
                "sym_name": StringAttr(symbol),
                "sym_visibility": StringAttr("private"),
                "type": type,
                "initial_value": AttributeParser(any_dialect, text).parse_attribute(),
            }
        )
