"""
Whether two modules mean the same: function by function, result by result.

A function without arguments is followed to its constants and compared in pieces. Others are
run, with arguments that hit what goes wrong.
"""

from __future__ import annotations

import io
import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from qdialect.certificates.comparison import are_alike
from qdialect.certificates.index_maps import NotCertifiableError, Positions, index_at
from qdialect.certificates.readings import (
    SlotTable,
    bits_of,
    dequantize,
    differ,
    numbers_in,
)
from qdialect.certificates.value_graph import (
    GraphReader,
    Node,
    elements_at,
    pieces_of,
    stores_the_same,
)
from qdialect.dialects.quant.types import UniformQuantizedType, uniform_tensor
from qdialect.dialects.quant.verification import with_lengths_of_slots
from qdialect.dialects.value_types import element_type_or_self, shape_of
from qdialect.interpreters import (
    OpInterpretationError,
    TypedArray,
    random_arguments,
    run_function,
)
from qdialect.interpreters.values import held_type
from qdialect.lazy_numpy import np
from qdialect.movement import DYNAMIC, Shape
from qdialect.resources import ResourceBlobs
from qdialect.shape_op_interface import name_of
from qdialect.text.printer import MLIRPrinter

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_RUNS: Final = 8
"""With how many sets of arguments a function is run."""


@dataclass(frozen=True)
class Side:
    """One of the two modules, and the context that it was read with."""

    module: ModuleOp
    context: Context

    @property
    def functions(self) -> dict[str, FuncOp]:
        """The functions by name."""
        ops = (op for op in self.module.ops if isinstance(op, FuncOp))
        return {op.sym_name.data: op for op in ops}

    @property
    def others(self) -> list[Operation]:
        """What else there is at the top."""
        return [op for op in self.module.ops if not isinstance(op, FuncOp)]


@dataclass(frozen=True)
class Finding:
    """Something that is not the same, or of which that cannot be told."""

    message: str
    op: Operation
    is_before: bool = False
    """Whether the op is one of the first module."""


class _Different(Exception):
    """What is different, and where."""


@contextmanager
def _place(before: str = "", after: str = "") -> Generator[None]:
    """Say more of where it is, if something is different."""
    try:
        yield
    except _Different as error:
        raise _Different(f"{before}{error}{after}") from None


def compare_modules(before: Side, after: Side, runs: int = DEFAULT_RUNS) -> Iterator[Finding]:
    """
    The first difference of each function, and what cannot be compared.

    Functions have the same names and types, types that are spelled otherwise included.
    Private ones may be gone. `runs` is how many sets of arguments are tried.
    """
    yield from _compare_others(before, after)
    functions = after.functions
    for name, function in before.functions.items():
        if name not in functions:
            if not _is_private(function):
                yield Finding(f"there is no function '{name}' any more", function, is_before=True)
            continue
        yield from _Comparison(before, after, function, functions.pop(name), runs).findings()
    for name, function in functions.items():
        if not _is_private(function):
            yield Finding(f"there was no function '{name}' before", function)


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def _compare_others(before: Side, after: Side) -> Iterator[Finding]:
    texts = [{text_of(op, side.context): op for op in side.others} for side in (before, after)]
    for one, other, is_before in ((*texts, True), (*reversed(texts), False)):
        for text, op in one.items():
            if text not in other:
                yield Finding(
                    f"cannot be checked: '{name_of(op)}' op is no function", op, is_before
                )


def text_of(op: Operation, context: Context) -> str:
    """The text of an op in generic form, whatever its values are called, and of its resources."""
    interface, blobs = ResourceBlobs.of(context).interface, list[str]()
    for inner in op.walk():
        for attribute in (*inner.attributes.values(), *inner.properties.values()):
            if isinstance(attribute, DenseResourceAttr) and interface is not None:
                blobs.append(str(interface.lookup(attribute.resource_handle.data)))
    copy = op.clone()
    for inner in copy.walk():
        for region in inner.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.name_hint = None
        for result in inner.results:
            result.name_hint = None
    stream = io.StringIO()
    MLIRPrinter(stream=stream, print_generic_format=True).print_op(copy)
    return "\n".join((stream.getvalue(), *blobs))


@dataclass(frozen=True)
class _Values:
    """Some elements of a result."""

    numbers: NDArray[Any]
    """Integers, doubles, or bits."""

    positions: Positions
    type: Attribute
    shape: Shape

    def require_same(self, other: _Values) -> None:
        """Raise _Different for the first element that is not the same."""
        wrong = differ(self.numbers, other.numbers)
        if self.numbers.dtype.kind == other.numbers.dtype.kind == "f":
            wrong &= ~(np.isnan(self.numbers) & np.isnan(other.numbers))
        if wrong.any():
            at = int(np.argmax(wrong))
            place = (
                f" element {index_at(int(self.positions[at]), self.shape)}" if self.shape else ""
            )
            raise _Different(f"{place} is {other.text_at(at)}, but was {self.text_at(at)} before")

    def text_at(self, at: int) -> str:
        """One element."""
        number, type = self.numbers[at], element_type_or_self(self.type)
        if not isinstance(type, UniformQuantizedType):
            return str(number.item())
        scales, zero_points = SlotTable.of(type, self.shape).at(self.positions[at : at + 1])
        read = dequantize(self.numbers[at : at + 1], scales, zero_points, type)
        return f"{read.item()} (stored {number.item()})"


class _Comparison:
    """Two functions of one name."""

    def __init__(self, before: Side, after: Side, old: FuncOp, new: FuncOp, runs: int) -> None:
        self._before, self._after = before, after
        self._old, self._new = old, new
        self._runs = runs
        self._name = new.sym_name.data

    def findings(self) -> Iterator[Finding]:
        """What is different, or cannot be told: one of it."""
        try:
            self._compare_types()
            if self._old.is_declaration and self._new.is_declaration:
                return
            if self._old.is_declaration or self._new.is_declaration:
                raise _Different(" has no body in one of the modules")
            if not self._old.function_type.inputs.data and self._compare_constants():
                return
            yield from self._compare_runs()
        except _Different as error:
            yield Finding(f"function '{self._name}'{error}", self._new)

    def _compare_types(self) -> None:
        old, new = self._old.function_type, self._new.function_type
        for kind, olds, news in (
            ("argument", old.inputs.data, new.inputs.data),
            ("result", old.outputs.data, new.outputs.data),
        ):
            if len(olds) != len(news):
                raise _Different(f" has {len(news)} {kind}s, but had {len(olds)} before")
            for number, types in enumerate(zip(olds, news, strict=True)):
                with _place(f" {kind} #{number}"):
                    require_same_type(*types)

    def _compare_constants(self) -> bool:
        """Compare what is made of constants alone; false if there is something else."""
        try:
            olds = self._results(self._before, self._old)
            news = self._results(self._after, self._new)
            for number, type in enumerate(self._old.function_type.outputs.data):
                with _place(f" result #{number}"):
                    _compare_nodes(olds[number], news[number], type)
        except NotCertifiableError:
            return False
        return True

    def _results(self, side: Side, function: FuncOp) -> list[Node]:
        last = function.body.block.last_op if len(function.body.blocks) == 1 else None
        if not isinstance(last, ReturnOp):
            raise NotCertifiableError("it does more than to return constants")
        reader = GraphReader(ResourceBlobs.of(side.context), trusts_types=False)
        return [reader.read(value) for value in last.arguments]

    def _compare_runs(self) -> Iterator[Finding]:
        compared, failed = 0, None
        for seed in range(self._runs if self._old.function_type.inputs.data else 1):
            try:
                arguments = random_arguments(self._old.function_type, seed)
                olds = run_function(
                    self._before.module, self._name, arguments, self._before.context
                )
            except InterpretationError as error:
                # What cannot be run before need not be run after, with these lengths.
                failed = failed or self._failure(error, is_before=True)
                continue
            try:
                arguments = [
                    TypedArray.of(argument.elements, type)
                    for argument, type in zip(
                        arguments, self._new.function_type.inputs.data, strict=True
                    )
                ]
                news = run_function(self._after.module, self._name, arguments, self._after.context)
            except InterpretationError as error:
                failed, compared = self._failure(error, is_before=False), 0
                break
            compared += 1
            with _place(after=f", with the arguments of seed {seed}" if arguments else ""):
                _compare_results(olds, news)
        if not compared and failed is not None and not self._are_identical():
            yield failed

    def _failure(self, error: InterpretationError, *, is_before: bool) -> Finding:
        op = error.op if isinstance(error, OpInterpretationError) else None
        function = self._old if is_before else self._new
        return Finding(
            f"function '{self._name}' cannot be checked: {error}", op or function, is_before
        )

    def _are_identical(self) -> bool:
        old = text_of(self._old, self._before.context)
        return old == text_of(self._new, self._after.context)


def require_same_type(before: Attribute, after: Attribute) -> None:
    """Raise _Different unless both types mean the same, however they are spelled."""
    if before == after:
        return
    types = [element_type_or_self(type) for type in (before, after)]
    shapes = [_assumed_shape(type) for type in (before, after)]
    texts = [_short(str(type)) for type in (before, after)]
    other = _Different(f" is of type {texts[1]}, but was of {texts[0]} before")
    if _without_slots(before) != _without_slots(after) or shapes[0] != shapes[1]:
        raise other
    if not all(isinstance(type, UniformQuantizedType) for type in types):
        raise other
    if not stores_the_same(*types):
        raise other
    old, new = (SlotTable.of(cast(UniformQuantizedType, type), shapes[0]) for type in types)
    for positions in pieces_of(math.prod(shapes[0])):
        slots = old.at(positions), new.at(positions)
        wrong = differ(slots[0][0], slots[1][0]) | differ(slots[0][1], slots[1][1])
        if wrong.any():
            at = int(np.argmax(wrong))
            was, now = (
                f"scale {scales[at]:.6e}, zero point {zero_points[at]}"
                for scales, zero_points in slots
            )
            index = index_at(int(positions[at]), shapes[0])
            place = f" element {index}" if index else ""
            raise _Different(f"{place} is read with {now}, but was with {was} before")


_LONGEST_TYPE: Final = 120


def _short(text: str) -> str:
    return f"'{text}'" if len(text) <= _LONGEST_TYPE else f"'{text[:_LONGEST_TYPE]}...'"


def _without_slots(type: Attribute) -> tuple[object, ...]:
    """The shape and the encoding, if it is a tensor."""
    if not isinstance(type, TensorType):
        return ()
    tensor = cast("TensorType[Attribute]", type)
    return tensor.get_shape(), tensor.encoding


def _assumed_shape(type: Attribute) -> Shape:
    """The shape, with the lengths that slots tell, and one for others that are not known."""
    shape = shape_of(type) or ()
    if isinstance(element_type_or_self(type), UniformQuantizedType) and shape:
        shape = with_lengths_of_slots(uniform_tensor(type))
    return tuple(1 if length == DYNAMIC else length for length in shape)


def _compare_nodes(before: Node, after: Node, type: Attribute) -> None:
    if before.shape != after.shape:
        raise _Different(f" has shape {list(after.shape)}, but had {list(before.shape)} before")
    if are_alike(before, after):
        return
    for positions in pieces_of(before.size):
        old, new = (
            _Values(elements_at(node, positions).numbers_at(0), positions, type, node.shape)
            for node in (before, after)
        )
        old.require_same(new)


def _compare_results(befores: Sequence[TypedArray], afters: Sequence[TypedArray]) -> None:
    for number, (before, after) in enumerate(zip(befores, afters, strict=True)):
        with _place(f" result #{number}"):
            require_same_type(before.type, after.type)
            _values_of(before).require_same(_values_of(after))


def _values_of(array: TypedArray) -> _Values:
    held = held_type(array.element_type)
    bits = bits_of(array.elements.reshape(-1), held)
    positions = np.arange(array.elements.size, dtype=np.int64)
    return _Values(numbers_in(bits, array.element_type), positions, array.type, array.shape)
