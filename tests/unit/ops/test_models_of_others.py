"""
The models of ops whose dialects are never registered, compared with numpy.

Each op is run on elements that all differ, with its integers as attributes and operands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i32

from qdialect.check.interpreters import TypedArray, run_function
from qdialect.ops.model import models_for_all
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """An op on an argument `%x`."""

    text: str
    """With `TYPES` for the types, and constants that it reads named `%name`."""

    move: Callable[[Array], Array]
    constants: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])
    shape: tuple[int, ...] = (2, 3, 4)


def whole(text: str) -> Case:
    """An op that reshapes 2x3x4 to 6x4."""
    return Case(text, lambda x: x.reshape(6, 4), {"shape": [6, 4]})


def space_of(x: Array, *, is_depth_last: bool) -> Array:
    """Blocks of 2x2 in the place of each element, from the axis of channels: ONNX's two modes."""
    result = np.empty((x.shape[0], x.shape[1] // 4, 2 * x.shape[2], 2 * x.shape[3]), x.dtype)
    for row, column in np.ndindex(2, 2):
        at = 2 * row + column
        depth = x.shape[1] // 4
        channels = range(at * depth, (at + 1) * depth) if is_depth_last else range(at, 4 * depth, 4)
        result[:, :, row::2, column::2] = x[:, [*channels]]
    return result


CASES = {
    "tfl.transpose": Case(
        '"tfl.transpose"(%x, %perm)', lambda x: x.transpose(2, 0, 1), {"perm": [2, 0, 1]}
    ),
    "tfl.reshape": whole('"tfl.reshape"(%x, %shape)'),
    "tfl.expand_dims": Case('"tfl.expand_dims"(%x, %at)', lambda x: x[:, np.newaxis], {"at": [1]}),
    "tfl.squeeze": Case('"tfl.squeeze"(%x) <{squeeze_dims = []}>', lambda x: x.reshape(2, 12)),
    "tfl.slice": Case(
        '"tfl.slice"(%x, %begin, %size)',
        lambda x: x[1:2, 0:2, 1:4],
        {"begin": [1, 0, 1], "size": [1, 2, -1]},
    ),
    "tfl.concatenation": Case(
        '"tfl.concatenation"(%x, %x) <{axis = -1 : i32, fused_activation_function = "NONE"}>',
        lambda x: np.concatenate([x, x], -1),
    ),
    "tfl.reverse_v2": Case('"tfl.reverse_v2"(%x, %axis)', lambda x: np.flip(x, 2), {"axis": [-1]}),
    "tfl.broadcast_to": Case(
        '"tfl.broadcast_to"(%x, %shape)',
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
        {"shape": [5, 2, 3, 4]},
    ),
    "tfl.gather": Case(
        '"tfl.gather"(%x, %at) <{axis = 1 : i32, batch_dims = 0 : i32}>',
        lambda x: x.take([2, 0, 2], 1),
        {"at": [2, 0, 2]},
    ),
    "onnx.Transpose": Case(
        '"onnx.Transpose"(%x) {perm = [2, 0, 1]}', lambda x: x.transpose(2, 0, 1)
    ),
    "onnx.Transpose, reversed": Case('"onnx.Transpose"(%x)', lambda x: x.T),
    "onnx.Identity": Case('"onnx.Identity"(%x)', lambda x: x),
    "onnx.Reshape": whole('"onnx.Reshape"(%x, %shape) {allowzero = 0 : si64}'),
    "onnx.Squeeze": Case('"onnx.Squeeze"(%x, %at)', lambda x: x[0], {"at": [0]}, (1, 3, 4)),
    "onnx.Unsqueeze": Case('"onnx.Unsqueeze"(%x, %at)', lambda x: x[:, np.newaxis], {"at": [1]}),
    "onnx.Flatten": Case('"onnx.Flatten"(%x) {axis = 2 : si64}', lambda x: x.reshape(6, 4)),
    "onnx.Concat": Case(
        '"onnx.Concat"(%x, %x) {axis = -2 : si64}', lambda x: np.concatenate([x, x], 1)
    ),
    "onnx.Expand": Case(
        '"onnx.Expand"(%x, %shape)',
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
        {"shape": [5, 2, 3, 4]},
    ),
    "onnx.Slice": Case(
        '"onnx.Slice"(%x, %from, %to, %axes, %steps)',
        lambda x: x[:, 1:, -4:3:2],
        {"from": [1, -9], "to": [2147483647, -1], "axes": [1, 2], "steps": [1, 2]},
    ),
    "onnx.Slice, backward": Case(
        '"onnx.Slice"(%x, %from, %to, %axes, %steps)',
        lambda x: x[:, ::-1, 3:0:-2],
        {"from": [-1, 9], "to": [-9, 0], "axes": [1, 2], "steps": [-1, -2]},
    ),
    "onnx.Gather": Case(
        '"onnx.Gather"(%x, %at) {axis = 1 : si64}',
        lambda x: x.take([2, 0, 2], 1),
        {"at": [-1, 0, 2]},
    ),
    "onnx.Tile": Case(
        '"onnx.Tile"(%x, %times)', lambda x: np.tile(x, (2, 1, 3)), {"times": [2, 1, 3]}
    ),
    "onnx.Pad": Case(
        '"onnx.Pad"(%x, %widths)',
        lambda x: np.pad(x[:, 1:], ((1, 0), (0, 2), (0, 0))),
        {"widths": [1, -1, 0, 0, 2, 0]},
    ),
    "onnx.DepthToSpace": Case(
        '"onnx.DepthToSpace"(%x) {blocksize = 2 : si64}',
        lambda x: space_of(x, is_depth_last=True),
        shape=(2, 8, 1, 3),
    ),
    "onnx.DepthToSpace, depth first": Case(
        '"onnx.DepthToSpace"(%x) {blocksize = 2 : si64, mode = "CRD"}',
        lambda x: space_of(x, is_depth_last=False),
        shape=(2, 8, 1, 3),
    ),
    "onnx.SpaceToDepth": Case(
        '"onnx.SpaceToDepth"(%x) {blocksize = 2 : si64}',
        lambda x: np.concatenate([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], 1),
        shape=(2, 3, 2, 4),
    ),
    "ttir.permute": Case(
        '"ttir.permute"(%x) {permutation = array<i64: 2, 0, 1>}', lambda x: x.transpose(2, 0, 1)
    ),
    "ttir.transpose": Case(
        '"ttir.transpose"(%x) {dim0 = -1 : si32, dim1 = 0 : si32}', lambda x: x.swapaxes(0, 2)
    ),
    "ttir.reshape": whole('"ttir.reshape"(%x) {shape = [6 : i32, 4 : i32]}'),
    "ttir.squeeze": Case('"ttir.squeeze"(%x) {dim = 0 : si32}', lambda x: x[0], shape=(1, 3, 4)),
    "ttir.unsqueeze": Case('"ttir.unsqueeze"(%x) {dim = 1 : si32}', lambda x: x[:, np.newaxis]),
    "ttir.reverse": Case(
        '"ttir.reverse"(%x) {dimensions = array<i64: 0, 2>}', lambda x: np.flip(x, (0, 2))
    ),
    "ttir.slice_static": Case(
        '"ttir.slice_static"(%x) {begins = [0 : i32, 1 : i32, 1 : i32], '
        "ends = [2 : i32, 3 : i32, 4 : i32], step = [1 : i32, 1 : i32, 2 : i32]}",
        lambda x: x[0:2, 1:3, 1:4:2],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_elements_are_moved_as_numpy_moves_them(case: Case):
    x = np.arange(math.prod(case.shape), dtype=np.int32).reshape(case.shape)
    expected = case.move(x)
    constants = {
        name: f"%{name} = arith.constant dense<{numbers}> : tensor<{len(numbers)}xi64>"
        for name, numbers in case.constants.items()
    }
    argument = f"tensor<{''.join(f'{n}x' for n in case.shape)}i32>"
    result = f"tensor<{''.join(f'{n}x' for n in expected.shape)}i32>"
    operands = re.findall(r"%\w+", case.text)
    types = [
        argument if each == "%x" else f"tensor<{len(case.constants[each[1:]])}xi64>"
        for each in operands
    ]
    text = f"""
    func.func @f(%x: {argument}) -> {result} {{
      {chr(10).join(constants.values())}
      %r = {case.text} : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}
    """
    context = ToolContext(allow_unregistered=True)
    module = LocatingParser(context, text).parse_module()
    (found,) = run_function(
        module, "f", [TypedArray.of_numbers(x, TensorType(i32, case.shape))], context
    )
    assert found.numbers.tolist() == expected.tolist()


def test_every_model_is_among_the_cases():
    known = {
        name
        for dialect in ("onnx", "tfl", "ttir")
        for name, model in models_for_all(dialect).items()
        if model.movement is not None
    }
    assert "onnx.Transpose" in known
    # Padding is of quantized tensors only: a text of a fold shows it.
    assert known - {"tfl.pad"} <= CASES.keys()
