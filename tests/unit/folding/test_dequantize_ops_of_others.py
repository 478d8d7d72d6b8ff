"""
Shape ops behind the dequantize ops of dialects that nothing registers.

What a module computes is said by numpy where it is drawn, and by an evaluator that shares no code
with the package. Both must agree with what the fold makes of it.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from dequantizing_arithmetic import Array, Module, Shape, bits_of
from example_counts import examples
from hypothesis import assume, given, note
from hypothesis import strategies as st
from typing_extensions import override
from xdsl.utils.exceptions import ParseError, VerifyException

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import Grounds, compare_modules
from qdialect.folding.report import Outcome
from qdialect.ops.interface import RefusalCode
from qdialect.passes.dequantization import RaiseDequantizationPass
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass

pytestmark = pytest.mark.usefixtures("without_plugins")


@dataclass(frozen=True)
class Weight:
    """Integers, with scales and zero points along an axis, for blocks of one, or for all."""

    codes: Array
    axis: int | None
    block: int | None
    scales: Array
    zero_points: Array | None

    def whole(self, of: Array) -> Array:
        """Each element where it is read."""
        if self.block is not None:
            return np.repeat(of, self.block, self.axis)
        if self.axis is None:
            return of
        shape = [-1 if axis == self.axis else 1 for axis in range(self.codes.ndim)]
        return of.reshape(shape)

    @property
    def floats(self) -> Array:
        zeros = 0 if self.zero_points is None else self.whole(self.zero_points).astype(np.int64)
        return (self.codes.astype(np.int64) - zeros).astype(np.float32) * self.whole(self.scales)


@dataclass(frozen=True)
class Rounded(Weight):
    """The integers are what floats are rounded to; they are what is moved unless dequantized."""

    source: Array
    is_dequantized: bool

    @property
    @override
    def floats(self) -> Array:
        return super().floats if self.is_dequantized else self.codes

    @classmethod
    def of(cls, weight: Weight, random: np.random.Generator, is_dequantized: bool) -> Rounded:
        """Floats around those of a weight, beyond them where integers are clamped."""
        limits = np.iinfo(weight.codes.dtype)
        steps = random.uniform(-0.4, 0.4, weight.codes.shape)
        steps += np.where(weight.codes == limits.max, random.uniform(0, 50), 0)
        steps -= np.where(weight.codes == limits.min, random.uniform(0, 50), 0)
        source = (weight.floats + steps * weight.whole(weight.scales)).astype(np.float32)
        kept = (weight.codes, weight.axis, weight.block, weight.scales, weight.zero_points)
        return cls(*kept, source, is_dequantized)


@st.composite
def weights(draw: st.DrawFn, kind: str, rank: int | None = None) -> Weight:
    ranks = (rank, rank) if rank else (1, 3)
    shape = list(draw(st.lists(st.integers(1, 6), min_size=ranks[0], max_size=ranks[1])))
    axis = block = None
    slots: Shape = ()
    if kind != "tensor":
        axis = draw(st.integers(0, len(shape) - 1))
        slots = (shape[axis],)
    if kind == "blocks":
        assert axis is not None
        axis = len(shape) - 1 if rank else axis
        block = draw(st.integers(2, 3))
        slots = tuple(shape)
        shape[axis] *= block
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from([np.int8, np.uint8]))
    limits = np.iinfo(dtype)
    codes = random.integers(limits.min, limits.max + 1, shape).astype(dtype)
    zero_points = None
    if draw(st.booleans()):
        zero_points = random.integers(limits.min, limits.max + 1, slots).astype(dtype)
    scales = random.uniform(0.01, 2, slots).astype(np.float32)
    return Weight(codes, axis, block, np.asarray(scales), zero_points)


@dataclass(frozen=True)
class Move:
    """A shape op, and what numpy does."""

    name: str
    numbers: tuple[Any, ...]
    result: Array


@st.composite
def moves_of(draw: st.DrawFn, x: Array, kinds: Sequence[str]) -> list[Move]:
    found: list[Move] = []
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        axis = draw(st.integers(0, max(x.ndim - 1, 0)))
        numbers: tuple[Any, ...] = ()
        match kind:
            case "transpose":
                numbers = tuple(draw(st.permutations(range(x.ndim))))
                x = x.transpose(numbers)
            case "reshape":
                factors = [f for n in x.shape for f in ((2, n // 2) if n % 2 == 0 else (n,))]
                x = x.reshape(draw(st.sampled_from([(*factors,), (x.size,), (1, *x.shape)])))
                numbers = x.shape
            case "slice":
                assume(x.ndim > 0)
                start = draw(st.integers(0, x.shape[axis] - 1))
                end = draw(st.integers(start + 1, x.shape[axis]))
                step = draw(st.integers(1, 2))
                numbers = (axis, start, end, step)
                x = np.moveaxis(np.moveaxis(x, axis, 0)[start:end:step], 0, axis)
            case "expand":
                x = np.broadcast_to(x, (2, *x.shape))
                numbers = x.shape
            case "flip":
                numbers = (axis,)
                x = np.flip(x, axis)
            case "take":
                assume(x.ndim > 0)
                positions = draw(
                    st.lists(st.integers(0, x.shape[axis] - 1), min_size=1, max_size=3)
                )
                numbers = (axis, *positions)
                x = np.take(x, positions, axis)
            case "pad":
                widths = [draw(st.integers(0, 2)) for _ in range(2 * x.ndim)]
                numbers = (*widths,)
                x = np.pad(x, [*zip(widths[: x.ndim], widths[x.ndim :], strict=True)])
            case "backward":
                assume(x.ndim > 0)
                start = draw(st.integers(0, x.shape[axis] - 1))
                end = draw(st.integers(-1, start - 1))
                step = draw(st.integers(-3, -1))
                numbers = (axis, start, end - x.shape[axis] if end < 0 else end, step)
                positions = [*range(start, end, step)]
                x = np.take(x, positions, axis)
            case "tile":
                numbers = tuple(draw(st.integers(1, 2)) for _ in x.shape)
                x = np.tile(x, numbers)
            case _:
                numbers = (axis,)
                x = np.concatenate([x, x], axis)
        found.append(Move(kind, numbers, x))
    return found


SIGNS = {"int8": "si8", "uint8": "ui8", "float32": "f32", "int64": "si64"}


@dataclass
class Form(ABC):
    """How a dialect writes all this."""

    lines: list[str] = field(default_factory=list[str])

    KINDS: tuple[str, ...] = ("transpose", "reshape", "slice", "expand", "concat")

    @abstractmethod
    def type(self, array: Array) -> str: ...

    @abstractmethod
    def constant(self, array: Array) -> str: ...

    @abstractmethod
    def dequantized(self, of: Weight) -> str: ...

    @abstractmethod
    def moved(self, value: str, before: Array, move: Move) -> str: ...

    def emit(self, op: str, operands: Sequence[str], types: Sequence[str], result: str) -> str:
        name = f"%v{len(self.lines)}"
        head, _, attributes = op.partition(" ")
        self.lines.append(
            f'{name} = "{head}"({", ".join(operands)}) {attributes} '
            f": ({', '.join(types)}) -> {result}"
        )
        return name

    def elements(self, array: Array) -> str:
        shape = "".join(f"{n}x" for n in array.shape)
        listed = json.dumps(array.tolist())
        if array.dtype == np.float32:
            bits = array.view(np.uint32)
            listed = re.sub(r"\d+", lambda n: f"0x{int(n[0]):08X}", json.dumps(bits.tolist()))
        return f"dense<{listed}> : tensor<{shape}{self.element(array)}>"

    def element(self, array: Array) -> str:
        return SIGNS[array.dtype.name]

    def function(self, of: Weight, moves: Sequence[Move]) -> str:
        value, x = self.dequantized(of), of.floats
        for move in moves:
            value, x = self.moved(value, x, move), move.result
        body = "\n".join(self.lines)
        return f"func.func @f() -> {self.type(x)} {{\n{body}\nreturn {value} : {self.type(x)}\n}}"


class OfTorch(Form):
    """With shape ops of torch."""

    KINDS = (*Form.KINDS, "flip", "take", "pad", "backward")

    def type(self, array: Array, element: str | None = None) -> str:
        lengths = ",".join(map(str, array.shape))
        return f"!torch.vtensor<[{lengths}],{element or self.element(array)}>"

    def constant(self, array: Array) -> str:
        op = f"torch.vtensor.literal <{{value = {self.elements(array)}}}>"
        return self.emit(op, [], [], self.type(array))

    def integer(self, number: int) -> str:
        return self.emit(f"torch.constant.int <{{value = {number} : i64}}>", [], [], "!torch.int")

    def list(self, numbers: Sequence[int]) -> str:
        items = [self.integer(number) for number in numbers]
        types = ["!torch.int"] * len(items)
        return self.emit("torch.prim.ListConstruct", items, types, "!torch.list<int>")

    def none(self) -> str:
        return self.emit("torch.constant.none", [], [], "!torch.none")

    def tensors(self, of: Weight) -> tuple[list[str], list[str]]:
        """Codes, scales and zero points, and their types."""
        zeros = None if of.zero_points is None else of.zero_points.astype(np.int64)
        operands = [self.stored(of), self.constant(of.scales)]
        operands.append(self.none() if zeros is None else self.constant(zeros))
        types = [self.type(of.codes), self.type(of.scales)]
        return operands, [*types, "!torch.none" if zeros is None else self.type(zeros)]

    def stored(self, of: Weight) -> str:
        return self.constant(of.codes)

    def limits(self, of: Weight) -> list[str]:
        """The limits of the integers, and the number of their type."""
        limits = np.iinfo(of.codes.dtype)
        return [self.integer(number) for number in (limits.min, limits.max, 1)]

    def dequantized(self, of: Weight) -> str:
        operands, types = self.tensors(of)
        numbers = self.limits(of)
        integers = ["!torch.int"] * 3
        if of.block is not None:
            group = [*operands, *numbers, self.integer(of.block), self.none()]
            types = [*types, *integers, "!torch.int", "!torch.none"]
            name = "torch.quantized_decomposed.dequantize_per_channel_group"
            return self.emit(
                f'torch.operator <{{name = "{name}"}}>', group, types, self.type(of.floats)
            )
        assert of.axis is not None
        operands += [self.integer(of.axis), *numbers, self.none()]
        types += ["!torch.int", *integers, "!torch.none"]
        name = "torch.quantized_decomposed.dequantize_per_channel"
        return self.emit(name, operands, types, self.type(of.floats))

    def moved(self, value: str, before: Array, move: Move) -> str:
        lists, dim = "!torch.list<int>", "!torch.int"
        match move.name:
            case "transpose":
                op, operands, types = "permute", [self.list(move.numbers)], [lists]
            case "reshape":
                op, operands, types = "view", [self.list(move.numbers)], [lists]
            case "slice" | "backward":
                op, operands = "slice.Tensor", [*map(self.integer, move.numbers)]
                types = [dim] * 4
            case "expand":
                false = "torch.constant.bool <{value = false}>"
                operands = [self.list(move.numbers), self.emit(false, [], [], "!torch.bool")]
                op, types = "expand", [lists, "!torch.bool"]
            case "flip":
                op, operands, types = "flip", [self.list(move.numbers)], [lists]
            case "take":
                axis, *positions = move.numbers
                indices = np.array(positions, dtype=np.int64)
                op, types = "index_select", [dim, self.type(indices)]
                operands = [self.integer(axis), self.constant(indices)]
            case "pad":
                zero = self.emit(
                    "torch.constant.float <{value = 0.0 : f64}>", [], [], "!torch.float"
                )
                low, high = move.numbers[: before.ndim], move.numbers[before.ndim :]
                last_first = [n for pair in reversed([*zip(low, high, strict=True)]) for n in pair]
                op, types = "constant_pad_nd", [lists, "!torch.float"]
                operands = [self.list(last_first), zero]
            case _:
                kind = self.type(before)
                both = self.emit(
                    "torch.prim.ListConstruct", [value] * 2, [kind] * 2, "!torch.list<vtensor>"
                )
                operands, types = [both, self.integer(*move.numbers)], ["!torch.list<vtensor>", dim]
                return self.emit("torch.aten.cat", operands, types, self.type(move.result))
        return self.emit(
            f"torch.aten.{op}",
            [value, *operands],
            [self.type(before), *types],
            self.type(move.result),
        )


class ArithmeticOfTorch(OfTorch):
    """Integers are converted, subtracted from and multiplied, all with tensors of one rank."""

    def dequantized(self, of: Weight) -> str:
        types = "!torch.int", "!torch.bool", "!torch.bool", "!torch.none"

        def real(array: Array) -> str:
            false = "torch.constant.bool <{value = false}>"
            to = [self.integer(6), *(self.emit(false, [], [], types[1]) for _ in range(2))]
            operands = [self.constant(array), *to, self.none()]
            made = self.type(array, "f32")
            return self.emit("torch.aten.to.dtype", operands, [self.type(array), *types], made)

        value, type = real(of.codes), self.type(of.floats)
        if of.zero_points is not None:
            # A zero point for each scale, and an axis of one position where they are one.
            zeros = of.whole(of.zero_points)
            operands = [value, real(zeros), self.integer(1)]
            kinds = [type, self.type(zeros, "f32"), types[0]]
            value = self.emit("torch.aten.sub.Tensor", operands, kinds, type)
        return self.multiplied(value, of)

    def multiplied(self, value: str, of: Weight) -> str:
        scales, type = of.whole(of.scales), self.type(of.floats)
        operands, types = [value, self.constant(scales)], [type, self.type(scales)]
        return self.emit("torch.aten.mul.Tensor", operands, types, type)


class NumbersOfTorch(ArithmeticOfTorch):
    """The scale is a number."""

    def multiplied(self, value: str, of: Weight) -> str:
        held, type = repr(float(of.scales)), self.type(of.floats)
        number = self.emit(
            f"torch.constant.float <{{value = {held} : f64}}>", [], [], "!torch.float"
        )
        types = [type, "!torch.float"]
        return self.emit("torch.aten.mul.Scalar", [value, number], types, type)


class PerTensorOfTorch(OfTorch):
    """The scale and the zero point are numbers."""

    def dequantized(self, of: Weight) -> str:
        scale, zero_point = self.numbers(of)
        numbers = self.limits(of)
        operands = [self.stored(of), scale, zero_point, *numbers, self.none()]
        types = [self.type(of.codes), "!torch.float", *["!torch.int"] * 4, "!torch.none"]
        name = "torch.quantized_decomposed.dequantize_per_tensor"
        return self.emit(name, operands, types, self.type(of.floats))

    def numbers(self, of: Weight) -> tuple[str, str]:
        held = repr(float(of.scales))
        op = f"torch.constant.float <{{value = {held} : f64}}>"
        zero_point = 0 if of.zero_points is None else int(of.zero_points)
        return self.emit(op, [], [], "!torch.float"), self.integer(zero_point)


class QuantizedByTorch(OfTorch):
    """The integers are quantized floats."""

    def stored(self, of: Weight) -> str:
        assert isinstance(of, Rounded)
        operands = [self.constant(of.source), self.constant(of.scales)]
        types = [self.type(of.source), self.type(of.scales), "!torch.none"]
        if of.zero_points is None:
            operands.append(self.none())
        else:
            zeros = of.zero_points.astype(np.int64)
            operands.append(self.constant(zeros))
            types[2] = self.type(zeros)
        assert of.axis is not None
        operands += [self.integer(of.axis), *self.limits(of)]
        types += ["!torch.int"] * 4
        name = "torch.quantized_decomposed.quantize_per_channel"
        return self.emit(name, operands, types, self.type(of.codes))

    def dequantized(self, of: Weight) -> str:
        return self.stored(of) if of.floats is of.codes else super().dequantized(of)


class QuantizedByTorchWithNumbers(PerTensorOfTorch):
    """The same of one scale."""

    def stored(self, of: Weight) -> str:
        assert isinstance(of, Rounded)
        operands = [self.constant(of.source), *self.numbers(of), *self.limits(of)]
        types = [self.type(of.source), "!torch.float", *["!torch.int"] * 4]
        name = "torch.quantized_decomposed.quantize_per_tensor"
        return self.emit(name, operands, types, self.type(of.codes))

    def dequantized(self, of: Weight) -> str:
        return self.stored(of) if of.floats is of.codes else super().dequantized(of)


class MadeQuantized(PerTensorOfTorch):
    """A quantized tensor is made, and then dequantized."""

    def dequantized(self, of: Weight) -> str:
        element = "!torch.qint8" if of.codes.dtype == np.int8 else "!torch.quint8"
        kind = self.type(of.codes, element)
        if of.axis is None:
            scale, zero_point = self.numbers(of)
            operands = [self.constant(of.codes), scale, zero_point]
            types = [self.type(of.codes), "!torch.float", "!torch.int"]
            made = self.emit("torch.aten._make_per_tensor_quantized_tensor", operands, types, kind)
        else:
            operands, types = self.tensors(of)
            operands, types = [*operands, self.integer(of.axis)], [*types, "!torch.int"]
            made = self.emit("torch.aten._make_per_channel_quantized_tensor", operands, types, kind)
        return self.emit("torch.aten.dequantize.self", [made], [kind], self.type(of.floats))


class OfOnnx(Form):
    KINDS = (*Form.KINDS, "take", "pad", "backward", "tile")

    def type(self, array: Array) -> str:
        shape = "".join(f"{n}x" for n in array.shape)
        return f"tensor<{shape}{self.element(array)}>"

    def element(self, array: Array) -> str:
        return {"int8": "i8", "int64": "i64"}.get(array.dtype.name) or SIGNS[array.dtype.name]

    def op(self, name: str, **attributes: Any) -> str:
        listed = ", ".join(f"{key} = {held}" for key, held in attributes.items())
        return f"onnx.{name} {{{listed}}}"

    def constant(self, array: Array) -> str:
        return self.emit(self.op("Constant", value=self.elements(array)), [], [], self.type(array))

    def none(self) -> tuple[str, str]:
        return self.emit("onnx.NoValue {value}", [], [], "none"), "none"

    def dequantized(self, of: Weight) -> str:
        return self.linear("DequantizeLinear", self.constant(of.codes), of.codes, of, of.floats)

    def linear(self, name: str, value: str, array: Array, of: Weight, result: Array) -> str:
        operands = [value, self.constant(of.scales)]
        types = [self.type(array), self.type(of.scales)]
        if of.zero_points is None:
            none, kind = self.none()
        else:
            none, kind = self.constant(of.zero_points), self.type(of.zero_points)
        attributes = {} if of.axis is None else {"axis": f"{of.axis} : si64"}
        attributes |= {} if of.block is None else {"block_size": f"{of.block} : si64"}
        op = self.op(name, **attributes)
        return self.emit(op, [*operands, none], [*types, kind], self.type(result))

    def moved(self, value: str, before: Array, move: Move) -> str:
        operands, attributes = list[Array](), dict[str, str]()
        values = [value]
        match move.name:
            case "transpose":
                name = "Transpose"
                listed = ", ".join(f"{n} : si64" for n in move.numbers)
                attributes["perm"] = f"[{listed}]"
            case "slice" | "backward":
                axis, start, end, step = move.numbers
                name = "Slice"
                operands = [np.array([n], dtype=np.int64) for n in (start, end, axis, step)]
            case "concat":
                name, values = "Concat", [value, value]
                attributes["axis"] = f"{move.numbers[0]} : si64"
            case "take":
                # Some positions count from the end.
                axis, *positions = move.numbers
                name, length = "Gather", before.shape[axis]
                attributes["axis"] = f"{axis} : si64"
                counted = [at - length if at % 2 else at for at in positions]
                operands = [np.array(counted, dtype=np.int64)]
            case "pad" | "tile":
                name = move.name.capitalize()
                operands = [np.array(move.numbers, dtype=np.int64)]
            case _:
                name = "Reshape" if move.name == "reshape" else "Expand"
                operands = [np.array(move.numbers, dtype=np.int64)]
        types = [*[self.type(before)] * len(values), *map(self.type, operands)]
        names = [*values, *map(self.constant, operands)]
        return self.emit(self.op(name, **attributes), names, types, self.type(move.result))


class ArithmeticOfOnnx(OfOnnx):
    """Integers are converted, subtracted from and multiplied, with tensors that are broadcast."""

    def dequantized(self, of: Weight) -> str:
        def real(array: Array) -> str:
            made = array.astype(np.float32)
            op = self.op("Cast", to="1 : si64")
            return self.emit(op, [self.constant(array)], [self.type(array)], self.type(made))

        value, type = real(of.codes), self.type(of.floats)
        if of.zero_points is not None:
            zeros = of.whole(of.zero_points)
            kinds = [type, self.type(zeros.astype(np.float32))]
            value = self.emit(self.op("Sub"), [value, real(zeros)], kinds, type)
        scales = of.whole(of.scales)
        operands = [value, self.constant(scales)]
        return self.emit(self.op("Mul"), operands, [type, self.type(scales)], type)


class OnnxInTorch(OfOnnx):
    def type(self, array: Array) -> str:
        lengths = ",".join(map(str, array.shape))
        return f"!torch.vtensor<[{lengths}],{self.element(array)}>"

    def element(self, array: Array) -> str:
        return SIGNS[array.dtype.name]

    def op(self, name: str, **attributes: Any) -> str:
        listed = ", ".join(f"torch.onnx.{key} = {held}" for key, held in attributes.items())
        return f'torch.operator <{{name = "onnx.{name}"}}> {{{listed}}}'

    def none(self) -> tuple[str, str]:
        return self.emit("torch.constant.none", [], [], "!torch.none"), "!torch.none"


class ArithmeticOfOnnxInTorch(ArithmeticOfOnnx, OnnxInTorch):
    """The same inside of torch's operators."""


class QuantizedByOnnx(OfOnnx):
    """The integers are quantized floats."""

    def dequantized(self, of: Weight) -> str:
        assert isinstance(of, Rounded)
        source = self.constant(of.source)
        stored = self.linear("QuantizeLinear", source, of.source, of, of.codes)
        if not of.is_dequantized:
            return stored
        return self.linear("DequantizeLinear", stored, of.codes, of, of.floats)


class QuantizedByOnnxInTorch(QuantizedByOnnx, OnnxInTorch):
    """The same inside of torch's operators."""


class OfIree(Form):
    """With shape ops of stablehlo."""

    KINDS = (*Form.KINDS, "flip")

    def type(self, array: Array) -> str:
        shape = "".join(f"{n}x" for n in array.shape)
        return f"tensor<{shape}{self.element(array)}>"

    def element(self, array: Array) -> str:
        return {"int8": "i8", "int64": "i64", "float32": "f32"}[array.dtype.name]

    def constant(self, array: Array) -> str:
        op = f"arith.constant <{{value = {self.elements(array)}}}>"
        return self.emit(op, [], [], self.type(array))

    def dequantized(self, of: Weight) -> str:
        rank = of.codes.ndim
        loops = ", ".join(f"d{axis}" for axis in range(rank))
        along = "" if of.axis is None else f"d{of.axis}"
        smalls = [of.scales]
        if of.zero_points is not None:
            smalls.append(of.zero_points.astype(np.int64))
        axes = [loops, *[along] * len(smalls), loops]
        maps = ", ".join(f"affine_map<({loops}) -> ({each})>" for each in axes)
        is_unsigned = of.codes.dtype == np.uint8
        low, high = (0, 255) if is_unsigned else (-128, 127)
        rest = ", input_unsigned" if is_unsigned else ""
        op = (
            f"iree_linalg_ext.dequantize_affine <{{indexing_maps = [{maps}], "
            f"quant_max = {high} : i64, quant_min = {low} : i64{rest}}}>"
        )
        empty = self.emit("tensor.empty", [], [], self.type(of.floats))
        tensors = [of.codes.view(np.int8), *smalls, of.floats]
        operands = [*map(self.constant, tensors[:-1]), empty]
        return self.emit(op, operands, [*map(self.type, tensors)], self.type(of.floats))

    def moved(self, value: str, before: Array, move: Move) -> str:
        def array(numbers: Sequence[int]) -> str:
            return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"

        values, rank, attributes = [value], before.ndim, ""
        match move.name:
            case "transpose":
                op, attributes = "transpose", f"permutation = {array(move.numbers)}"
            case "slice":
                axis, start, end, step = move.numbers
                lists = [[0] * rank, [*before.shape], [1] * rank]
                for of, number in zip(lists, (start, end, step), strict=True):
                    of[axis] = number
                names = ("start_indices", "limit_indices", "strides")
                held = zip(names, map(array, lists), strict=True)
                op, attributes = "slice", ", ".join(f"{name} = {each}" for name, each in held)
            case "concat":
                op, attributes = "concatenate", f"dimension = {move.numbers[0]} : i64"
                values = [value, value]
            case "flip":
                op, attributes = "reverse", f"dimensions = {array(move.numbers)}"
            case "expand":
                dims = array(range(1, rank + 1))
                op, attributes = "broadcast_in_dim", f"broadcast_dimensions = {dims}"
            case _:
                op = "reshape"
        types = [self.type(before)] * len(values)
        return self.emit(
            f"stablehlo.{op} <{{{attributes}}}>", values, types, self.type(move.result)
        )


CASES: dict[str, tuple[Callable[[], Form], str, int | None]] = {
    "torch, per channel": (OfTorch, "axis", None),
    "torch, in groups": (OfTorch, "blocks", 2),
    "torch, per tensor": (PerTensorOfTorch, "tensor", None),
    "torch, arithmetic": (ArithmeticOfTorch, "axis", None),
    "torch, arithmetic per tensor": (ArithmeticOfTorch, "tensor", None),
    "torch, arithmetic per tensor with a number": (NumbersOfTorch, "tensor", None),
    "torch, made quantized": (MadeQuantized, "tensor", None),
    "torch, made quantized per channel": (MadeQuantized, "axis", None),
    "onnx": (OfOnnx, "axis", None),
    "onnx, per tensor": (OfOnnx, "tensor", None),
    "onnx, in blocks": (OfOnnx, "blocks", None),
    "onnx in torch": (OnnxInTorch, "axis", None),
    "onnx in torch, per tensor": (OnnxInTorch, "tensor", None),
    "onnx in torch, in blocks": (OnnxInTorch, "blocks", None),
    "onnx, arithmetic": (ArithmeticOfOnnx, "axis", None),
    "onnx, arithmetic per tensor": (ArithmeticOfOnnx, "tensor", None),
    "onnx in torch, arithmetic": (ArithmeticOfOnnxInTorch, "axis", None),
    "iree_linalg_ext": (OfIree, "axis", None),
    "iree_linalg_ext, per tensor": (OfIree, "tensor", None),
}

ROUNDING: dict[str, tuple[Callable[[], Form], str, int | None]] = {
    "torch, quantized": (QuantizedByTorch, "axis", None),
    "torch, quantized per tensor": (QuantizedByTorchWithNumbers, "tensor", None),
    "onnx, quantized": (QuantizedByOnnx, "axis", None),
    "onnx, quantized per tensor": (QuantizedByOnnx, "tensor", None),
    "onnx, quantized in blocks": (QuantizedByOnnx, "blocks", None),
    "onnx in torch, quantized": (QuantizedByOnnxInTorch, "axis", None),
}
"""What rounds floats when it is run."""

SHAPE_OPS = re.compile(
    r"torch\.aten\.(?!dequantize|_make|to\.|sub\.|mul\.)|stablehlo|onnx\.(?!Constant|NoValue|DequantizeLinear|QuantizeLinear|Cast|Sub|Mul)"
)


def draw_module(data: st.DataObject, case: str, kinds: Sequence[str] = ()) -> tuple[str, Array]:
    make, kind, rank = (CASES | ROUNDING)[case]
    of = data.draw(weights(kind, rank))
    if case in ROUNDING:
        random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
        of = Rounded.of(of, random, data.draw(st.booleans(), label="dequantized"))
    form = make()
    # Which of the integers that are computed is zero is known at run time.
    known = [kind for kind in form.KINDS if kind != "pad" or case not in ROUNDING]
    moves = data.draw(moves_of(of.floats, kinds or known))
    text = form.function(of, moves)
    note(text)
    return text, moves[-1].result


@pytest.mark.parametrize("case", CASES | ROUNDING)
@examples(20)
@given(data=st.data())
def test_shape_ops_behind_dequantize_ops_of_others(case: str, data: st.DataObject):
    text, expected = draw_module(data, case)
    before, module = Module(text), Module(text)
    assert before.bits() == bits_of(expected)
    report = module.run(FoldQuantShapesPass())
    note(module.printed())
    assert module.bits() == bits_of(expected)
    refused = [record for record in report.records if record.outcome is Outcome.REFUSED]
    left = [op for op in module.ops if SHAPE_OPS.match(op)]
    folded = [record for record in report.records if record.outcome is Outcome.FOLDED]
    # The arithmetic may be done in blocks; then one reshape after it replaces several ops.
    is_in_blocks = len(left) == 1 and left[0].lower().endswith(("reshape", "view"))
    is_in_blocks = is_in_blocks and len(folded) > 1
    assert bool(refused) or not left or is_in_blocks
    for record in refused:
        # What it reads beside the elements is in no form that it has, or is repeated too often.
        assert record.code in (
            RefusalCode.ARITHMETIC,
            RefusalCode.PARAMETER_GROWTH,
            RefusalCode.GROWTH,
            RefusalCode.NOT_CONSTANT,
        )
    if "per tensor" in case:
        assert not [record for record in refused if record.code is not RefusalCode.GROWTH]
    sides = [Side(each.module, each.context) for each in (before, module)]
    (verdict,) = compare_modules(*sides, runs=0).verdicts
    assert verdict.grounds is Grounds.PROVEN


@pytest.mark.parametrize("case", CASES | ROUNDING)
@examples(20)
@given(data=st.data())
def test_transposes_are_folded_and_raised(case: str, data: st.DataObject):
    """All forms but that of groups have their scales on any axis."""
    text, expected = draw_module(data, case, ["transpose"])
    module = Module(text)
    report = module.run(FoldQuantShapesPass())
    assert module.bits() == bits_of(expected)
    is_left = [op for op in module.ops if SHAPE_OPS.match(op)]
    if "in groups" in case:
        refused = [record for record in report.records if record.outcome is Outcome.REFUSED]
        assert all(record.code is RefusalCode.ARITHMETIC for record in refused)
        assert bool(is_left) is bool(refused)
    else:
        assert not is_left

    module = Module(text)
    report = module.run(RaiseDequantizationPass())
    note(module.printed())
    assert module.bits() == bits_of(expected)
    raised = [record for record in report.records if record.outcome is Outcome.RAISED]
    if case in ROUNDING:
        # A cast says what its integers are, and here they are computed.
        assert not raised
    else:
        assert len(report.records) == len(raised) == 1
        assert "quant.dcast" in module.ops
        computed = "equantize", "quantized_tensor", "torch.aten.mul", "onnx.Mul"
        assert not [op for op in module.ops if any(part in op for part in computed)]


@examples(200)
@given(case=st.sampled_from(sorted(CASES | ROUNDING)), data=st.data())
def test_malformed_ops_are_left(case: str, data: st.DataObject):
    """No verifier has seen these: parts of ops are missing, are there twice, or are others."""
    text, _ = draw_module(data, case)
    lines = text.split("\n")
    at = data.draw(st.integers(1, len(lines) - 3), label="line")
    line = lines[at]
    parts = [*re.finditer(r"%v\d+|-?\b\d+\b|\[|, |[su]?i8|f32|<\{|i64", line.split(" : ")[0])]
    for part in data.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=2), label="parts"):
        new = data.draw(st.sampled_from(["", "0", "-7", "9999", "%v0", "[", "[[", "i1", "f16"]))
        line = line[: part.start()] + new + line[part.end() :]
    lines[at] = line
    try:
        module = Module("\n".join(lines))
    except (ParseError, VerifyException):
        return
    for report in (module.run(FoldQuantShapesPass()), module.run(RaiseDequantizationPass())):
        assert all(record.reason for record in report.records if record.code is not None)


OPERANDS = re.compile(r"\((%v\d+(?:, %v\d+)*)\)(.*?) : \((.*)\) -> ")


@examples(200)
@given(case=st.sampled_from(sorted(CASES | ROUNDING)), data=st.data())
def test_other_operands_are_left(case: str, data: st.DataObject):
    """Operands are missing, or are those of another place, of the types that they have there."""
    text, _ = draw_module(data, case)
    lines = text.split("\n")
    found = [at for at, each in enumerate(lines) if OPERANDS.search(each)]
    at = data.draw(st.sampled_from(found), label="line")
    parts = OPERANDS.search(lines[at])
    assert parts is not None
    names = parts[1].split(", ")
    types = re.findall(r"!?\w[\w.]*(?:<(?:[^<>]|<[^<>]*>)*>)?", parts[3])
    assume(len(types) == len(names))
    order = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=len(names) + 1))
    new = ", ".join(names[number] for number in order)
    kinds = ", ".join(types[number] for number in order)
    lines[at] = OPERANDS.sub(lambda _: f"({new}){parts[2]} : ({kinds}) -> ", lines[at], count=1)
    note(lines[at])
    try:
        module = Module("\n".join(lines))
    except (ParseError, VerifyException):
        return
    for report in (module.run(FoldQuantShapesPass()), module.run(RaiseDequantizationPass())):
        assert all(record.reason for record in report.records if record.code is not None)


def test_a_reshape_without_its_shape_is_left():
    """Written behind other parameters, it would need one."""
    text = """func.func @f() -> tensor<4xi8> {
%v0 = "onnx.Constant"() {value = dense<1.5> : tensor<2x2x2xf32>} : () -> tensor<2x2x2xf32>
%v1 = "onnx.Constant"() {value = dense<[1.5, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
%v2 = "onnx.NoValue"() {value} : () -> none
%v3 = "onnx.QuantizeLinear"(%v0, %v1, %v2) {axis = 0 : si64}
  : (tensor<2x2x2xf32>, tensor<2xf32>, none) -> tensor<2x2x2xi8>
%v4 = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
%v5 = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
%v8 = "onnx.Slice"(%v3, %v4, %v5, %v5, %v5)
  : (tensor<2x2x2xi8>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
  -> tensor<2x1x2xi8>
%v10 = "onnx.Reshape"(%v8) : (tensor<2x1x2xi8>) -> tensor<4xi8>
return %v10 : tensor<4xi8>
}"""
    report = Module(text).run(FoldQuantShapesPass())
    assert any(
        "its model raises IndexError" in (record.reason or "")
        or "it is malformed" in (record.reason or "")
        for record in report.records
    )


def test_a_result_of_another_shape_than_its_operand_is_left():
    text = """func.func @f() -> tensor<2x2x1xf32> {
%v0 = "onnx.Constant"() {value = dense<[2, -59]> : tensor<2xi8>} : () -> tensor<2xi8>
%v1 = "onnx.Constant"() {value = dense<[1.5, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
%v2 = "onnx.DequantizeLinear"(%v0, %v1) {axis = 1 : si64}
  : (tensor<2xi8>, tensor<2xf32>) -> tensor<1x2x1xf32>
%v3 = "onnx.Constant"() {value = dense<[2, 2, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
%v4 = "onnx.Expand"(%v2, %v3) : (tensor<1x2x1xf32>, tensor<3xi64>) -> tensor<2x2x1xf32>
return %v4 : tensor<2x2x1xf32>
}"""
    module = Module(text)
    before = str(module.module)
    for run in (FoldQuantShapesPass(), RaiseDequantizationPass()):
        module.run(run)
        assert str(module.module) == before


def test_scales_that_do_not_fit_their_axis_are_left():
    text = """func.func @f() -> tensor<2x1x1x2xf32> {
%v0 = "onnx.Constant"() {value = dense<[[[89, 35]]]> : tensor<1x1x2xi8>} : () -> tensor<1x1x2xi8>
%v1 = "onnx.Constant"() {value = dense<[1.5, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
%v2 = "onnx.NoValue"() {value} : () -> none
%v3 = "onnx.DequantizeLinear"(%v0, %v1, %v2) {axis = 0 : si64}
  : (tensor<1x1x2xi8>, tensor<2xf32>, none) -> tensor<1x1x2xf32>
%v4 = "onnx.Constant"() {value = dense<[2, 1, 1, 2]> : tensor<4xi64>} : () -> tensor<4xi64>
%v5 = "onnx.Expand"(%v3, %v4) : (tensor<1x1x2xf32>, tensor<4xi64>) -> tensor<2x1x1x2xf32>
return %v5 : tensor<2x1x1x2xf32>
}"""
    module = Module(text)
    before = str(module.module)
    report = module.run(FoldQuantShapesPass())
    assert any("cannot be broadcast to 1" in (record.reason or "") for record in report.records)
    module.run(RaiseDequantizationPass())
    assert str(module.module) == before
