"""
Lowered modules are accepted by MLIR's own tools, and evaluate to the same integers.

numpy computes the expected values, and `mlir-runner` those of the lowered module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from mlir_tools import needs_mlir_opt, needs_mlir_runner, run, run_main
from moved_functions import (
    LARGE_EXAMPLES,
    Function,
    Value,
    chains,
    context,
    hide,
    lower,
    parse,
    text_of,
)
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from qdialect.algebra.joins import Concat
from qdialect.algebra.movement import (
    BroadcastInDim,
    Movement,
    Reshape,
    Reverse,
    Shape,
    Slice,
    Transpose,
)
from qdialect.algebra.padding import Pad
from qdialect.algebra.parameters import QuantizationParameters, StorageFormat
from qdialect.dialects.quant import (
    ConstantOp,
    QuantizedTensor,
    StorageCastOp,
)
from qdialect.ir.elements import DenseElementsAttr, elements_of
from qdialect.ir.errors import OpErrors
from qdialect.opt.registry import ToolContext
from qdialect.passes.lower_quant_shapes import LowerQuantShapesPass
from qdialect.testing.tensors import F32, Constant, cut, expanded, quantized_tensor


def evaluate(functions: Sequence[FuncOp]) -> list[tuple[Shape, list[int]]]:
    """Shape and elements, sign-extended, of what each function returns when it is run."""
    module = lower(ModuleOp(list(functions)))
    assert not any(isinstance(op, StorageCastOp) for op in module.walk())
    calls: list[str] = []
    for number, function in enumerate(functions):
        (type,) = cast(Sequence[TensorType[IntegerType]], function.function_type.outputs.data)
        wide = TensorType(IntegerType(64), type.get_shape())
        calls += [
            f"%a{number} = func.call @{function.sym_name.data}() : () -> {type}",
            f"%b{number} = arith.extsi %a{number} : {type} to {wide}",
            f"%c{number} = tensor.cast %b{number} : {wide} to tensor<*xi64>",
            f"func.call @printMemrefI64(%c{number}) : (tensor<*xi64>) -> ()",
        ]
    results = run_main(text_of(module), calls)
    assert len(results) == len(functions)
    return [(shape, list(map(int, numbers))) for shape, numbers in results]


def check_values(functions: Sequence[FuncOp], expected: Sequence[Value]) -> None:
    for (shape, elements), value in zip(evaluate(functions), expected, strict=True):
        type = cast(QuantizedTensor, value.value.type)
        format = StorageFormat(type.element_type.storage_type.bitwidth, signed=True)
        assert shape == value.integers.shape
        assert elements == cut(value.integers, format).ravel().tolist()


@needs_mlir_runner
@examples(24, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_random_chains_evaluate_to_the_same_integers(data: st.DataObject):
    functions: list[FuncOp] = []
    expected: list[Value] = []
    # Many functions for each process that is started.
    for number in range(data.draw(st.integers(1, 14))):
        function = Function()
        *_, last = data.draw(chains(function, arguments=False))
        functions.append(function.finish_with_storage(f"f{number}", last))
        expected.append(last)
    check_values(functions, expected)


MOVES: list[tuple[Shape, Movement]] = [
    ((2, 3), Transpose((1, 0))),
    ((2, 3, 4), Transpose((2, 0, 1))),
    ((), Reshape((1, 1))),
    ((1, 1), Reshape(())),
    ((1,), Reshape(())),
    ((6, 4), Reshape((2, 3, 4))),
    ((6, 4), Reshape((4, 6))),
    ((2, 3, 4), Reshape((1, 6, 2, 2, 1))),
    ((4, 6, 2), Reshape((2, 12, 2))),
    ((0, 3), Reshape((5, 0))),
    ((0, 3), Reshape((0,))),
    ((6, 5), Slice((1, 0), (2, 5), (3, 1))),
    ((6, 5), Slice((6, 0), (0, 5), (1, 1))),
    ((2, 3), Concat(0)),
    ((2, 3), Concat(1)),
    ((0, 3), Concat(0)),
    ((4, 1), BroadcastInDim((2, 0), (3, 2, 4))),
    ((), BroadcastInDim((), (2, 3))),
    ((3, 2), BroadcastInDim((1, 0), (2, 3))),
    ((1, 3), BroadcastInDim((0, 1), (4, 3))),
    ((4,), Reverse((0,))),
    ((3, 1, 4), Reverse((2, 0))),
    ((0, 3), Reverse((1,))),
    ((2, 3), Pad((1, 0), (0, 2))),
    ((4, 6), Pad((0, 2), (2, 0))),
    ((), Pad((), ())),
    ((0, 2), Pad((0, 1), (0, 1))),
    ((3, 0), Reshape((0, 4))),
]

FORMATS = [StorageFormat(8, signed=True), StorageFormat(4, signed=False)]


def source_parameters(
    shape: Shape, granularity: str, storage: StorageFormat
) -> QuantizationParameters:
    """Different zero points: one, one per position of axis 0, or one per block of every axis."""
    match granularity:
        case "per-tensor":
            counts = (1,) * len(shape)
        case "per-axis":
            counts = (*shape[:1], *(1 for _ in shape[1:]))
        case _:
            counts = tuple(length if length % 2 else length // 2 for length in shape)
    ids = np.arange(math.prod(counts)).reshape(counts)
    zero_points = ids % (1 << (storage.width - 1))
    return QuantizationParameters.from_blocks(shape, (ids + 1) / 4.0, zero_points, F32, storage)


@needs_mlir_runner
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("granularity", ["per-tensor", "per-axis", "sub-channel"])
def test_every_movement_evaluates_to_the_same_integers(granularity: str, is_dynamic: bool):
    functions: list[FuncOp] = []
    expected: list[Value] = []
    for storage in FORMATS:
        for number, (shape, movement) in enumerate(MOVES):
            if 0 in shape and granularity != "per-tensor":
                continue
            function, operands = Function(), list[Value]()
            for seed in range(2 if isinstance(movement, Concat) else 1):
                moved = source_parameters(shape, granularity, storage)
                integers = np.random.default_rng(seed).integers(*storage.bounds, shape)
                constant = Constant(integers, moved, quantized_tensor(moved))
                value = (
                    function.storage(constant.type, integers, hide(shape, range(len(shape))))
                    if is_dynamic
                    else function.add(constant.op())
                )
                operands.append(Value(value, integers, expanded(moved)[1]))
            result = function.move(movement, operands)
            name = f"f{storage.width}_{number}"
            functions.append(function.finish_with_storage(name, result))
            expected.append(result)
    check_values(functions, expected)


@needs_mlir_opt
@examples(20, suppress_health_check=LARGE_EXAMPLES)
@given(st.data())
def test_random_chains_of_arguments_are_read_by_mlir(data: st.DataObject):
    """Also where every value of a chain is used, as the quantized type that it had."""
    functions: list[FuncOp] = []
    # Many functions for each process that is started.
    for number in range(data.draw(st.integers(1, 14))):
        function = Function()
        values = [of.value for of in data.draw(chains(function, arguments=True))]
        returned = data.draw(st.lists(st.sampled_from(values), min_size=1))
        functions.append(function.finish(f"f{number}", [*returned, values[-1]]))
    module = ModuleOp(list(functions))
    signatures = [function.function_type for function in functions]
    lower(module)
    assert [function.function_type for function in functions] == signatures
    custom, generic = text_of(module), text_of(module, generic=True)
    print_generic = ["mlir-opt-22", "--mlir-print-op-generic"]
    assert run(print_generic, custom) == run(print_generic, generic)
    # What MLIR folds, it does without an error.
    run(["mlir-opt-22", "--canonicalize"], custom)


@needs_mlir_runner
@pytest.mark.parametrize(
    ("type", "moved", "padded", "expected"),
    [
        ("!p", "!p", "!p", [[0, -1, 0.5, 1.5], [0, -0.5, 1, 98.5]]),
        (
            "!quant.uniform<u8:f32:0, {0.5:3,0.25:7}>",
            "!quant.uniform<u8:f32:1, {0.5:3,0.25:7}>",
            "!quant.uniform<u8:f32:0, {0.5:3,0.25:7}>",
            [[0, -1, 0.5, 1.5], [0, -1.25, -0.5, 48.25]],
        ),
        (
            "!quant.uniform<u8:f32:{0:1, 1:1}, {{0.5:3,1.0:1,2.0:2},{0.25:7,4.0:0,8.0:200}}>",
            "!quant.uniform<u8:f32:{0:1, 1:1}, {{0.5:3,0.25:7},{1.0:1,4.0:0},{2.0:2,8.0:200}}>",
            "!quant.uniform<u8:f32:{0:1, 1:1}, "
            "{{0.5:3,0.5:3,1.0:1,2.0:2},{0.25:7,0.25:7,4.0:0,8.0:200}}>",
            [[0, -1, 3, 8], [0, -1.25, 20, 0]],
        ),
    ],
    ids=["per-tensor", "per-axis", "sub-channel"],
)
def test_casts_are_lowered_by_mlir(type: str, moved: str, padded: str, expected: list[list[float]]):
    """The floats that MLIR's own lowering of `quant.dcast` gives in the end."""
    text = f"""
    !p = !quant.uniform<u8:f32, 0.5:3>
    !t = {type}
    !m = {moved}
    !d = {padded}
    func.func @f() -> tensor<2x4xf32> {{
      %w = quant.constant dense<[[1, 4, 6], [2, 5, 200]]> : tensor<2x3x!t>
      %m = quant.transpose %w permutation = [1, 0] : tensor<2x3x!t> to tensor<3x2x!m>
      %b = quant.transpose %m permutation = [1, 0] : tensor<3x2x!m> to tensor<2x3x!t>
      %d = quant.pad %b low = [0, 1] high = [0, 0] : tensor<2x3x!t> to tensor<2x4x!d>
      %f = quant.dcast %d : tensor<2x4x!d> to tensor<2x4xf32>
      return %f : tensor<2x4xf32>
    }}
    """
    lowering = ["mlir-opt-22", "--lower-quant-ops", "--canonicalize"]
    calls = [
        "%a = func.call @f() : () -> tensor<2x4xf32>",
        "%c = tensor.cast %a : tensor<2x4xf32> to tensor<*xf32>",
        "func.call @printMemrefF32(%c) : (tensor<*xf32>) -> ()",
    ]
    ((shape, numbers),) = run_main(run(lowering, text_of(lower(parse(text)))), calls)
    assert shape == (2, 4)
    assert np.array(list(map(float, numbers))).reshape(shape).tolist() == expected


CASES = sorted((Path(__file__).parents[2] / "filecheck/passes/lower_quant_shapes").glob("*.mlir"))


@needs_mlir_opt
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_text_is_read_by_mlir(path: Path, generic: bool):
    """What `qdialect-opt` prints of the cases of the pass, each in every form."""
    for part in path.read_text().split("// -----"):
        if "expected-error" not in part:
            module = Parser(ToolContext(), part).parse_module()
            run(["mlir-opt-22"], text_of(lower(module), generic=generic))


ALIASES = """
!p = !quant.uniform<i8:f32, 0.5:3>
!u = !quant.uniform<u8:f32, 0.5:200>
!n = !quant.uniform<u4:f32, 0.5>
"""


def lowered(text: str) -> ModuleOp:
    return lower(parse(ALIASES + text))


def constants_in(module: ModuleOp) -> list[DenseElementsAttr]:
    return [
        cast(DenseElementsAttr, op.value)
        for op in module.walk()
        if isinstance(op, arith.ConstantOp) and isinstance(op.result.type, TensorType)
    ]


@pytest.mark.parametrize("type", ["!p", "!u"])
def test_elements_are_not_copied(type: str):
    module = parse(f'{ALIASES} %w = quant.constant dense<"0x01C803"> : tensor<3x{type}>')
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    assert isinstance(constant.value, DenseIntOrFPElementsAttr)
    data = constant.value.data.data
    (elements,) = constants_in(lower(module))
    assert elements.data.data is data
    assert cast(NDArray[Any], elements_of(elements)).tolist() == [1, -56, 3]


def test_unsigned_elements_of_less_than_a_byte_have_their_sign():
    (elements,) = constants_in(lowered("%w = quant.constant dense<[1, 15, 8]> : tensor<3x!n>"))
    assert elements.data.data == b"\x01\xff\xf8"
    assert elements.type == TensorType(IntegerType(4), [3])


def test_splat_stays_one_element():
    module = lowered(
        """
        %w = quant.constant dense<200> : tensor<65536x65536x!u>
        %t = quant.transpose %w permutation = [1, 0]
          : tensor<65536x65536x!u> to tensor<65536x65536x!u>
        "test.op"(%t) : (tensor<65536x65536x!u>) -> ()
        """
    )
    (elements,) = constants_in(module)
    assert elements.data.data == b"\xc8"


def names_of(module: ModuleOp) -> list[str]:
    return [op.name for op in module.ops]


def test_chain_stays_in_storage_integers():
    """Casts are at its ends only, and those that were there are gone."""
    module = lowered(
        """
        %s = "test.op"() : () -> tensor<2x3xi8>
        %q = quant.scast %s : tensor<2x3xi8> to tensor<2x3x!p>
        %0 = quant.transpose %q permutation = [1, 0] : tensor<2x3x!p> to tensor<3x2x!p>
        %1 = quant.reshape %0 : tensor<3x2x!p> to tensor<6x!p>
        %r = quant.scast %1 : tensor<6x!p> to tensor<6xi8>
        %again = quant.scast %r : tensor<6xi8> to tensor<6x!p>
        %2 = quant.slice %again [1] [2] [1] : tensor<6x!p> to tensor<2x!p>
        %t = quant.scast %2 : tensor<2x!p> to tensor<2xi8>
        "test.op"(%t, %r) : (tensor<2xi8>, tensor<6xi8>) -> ()
        """
    )
    assert names_of(module) == [
        "test.op",
        "tensor.empty",
        "linalg.transpose",
        "tensor.collapse_shape",
        "tensor.extract_slice",
        "test.op",
    ]


def test_what_moves_nothing_is_no_op():
    module = lowered(
        """
        %q = "test.op"() : () -> tensor<1x3x!p>
        %0 = quant.reverse %q dims = [0] : tensor<1x3x!p> to tensor<1x3x!p>
        "test.op"(%0) : (tensor<1x3x!p>) -> ()
        """
    )
    assert names_of(module) == ["test.op", "test.op"]


def test_use_before_definition_in_a_graph_region():
    module = lowered(
        """
        "test.op"(%u) : (tensor<2x3x!p>) -> ()
        %u = quant.transpose %t permutation = [1, 0] : tensor<3x2x!p> to tensor<2x3x!p>
        %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!p> to tensor<3x2x!p>
        %w = quant.constant dense<1> : tensor<2x3x!p>
        """
    )
    assert names_of(module).count("quant.scast") == 1


@pytest.mark.parametrize(
    "body",
    [
        """
        "test.op"(%t) : (tensor<2x2x!p>) -> ()
        %u = quant.transpose %t permutation = [1, 0] : tensor<2x2x!p> to tensor<2x2x!p>
        %t = quant.reverse %u dims = [0] : tensor<2x2x!p> to tensor<2x2x!p>
        """,
        """
        %t = quant.reverse %t dims = [] : tensor<2x!p> to tensor<2x!p>
        "test.op"(%t) : (tensor<2x!p>) -> ()
        """,
        """
        %q = quant.scast %s : tensor<2xi8> to tensor<2x!p>
        %t = quant.reverse %q dims = [] : tensor<2x!p> to tensor<2x!p>
        %s = quant.scast %t : tensor<2x!p> to tensor<2xi8>
        "test.op"(%s) : (tensor<2xi8>) -> ()
        """,
        """
        %a = quant.scast %s : tensor<2xi8> to tensor<2x!p>
        %b = quant.reverse %a dims = [] : tensor<2x!p> to tensor<2x!p>
        %r = quant.scast %b : tensor<2x!p> to tensor<2xi8>
        %c = quant.scast %r : tensor<2xi8> to tensor<2x!p>
        %d = quant.reverse %c dims = [] : tensor<2x!p> to tensor<2x!p>
        %s = quant.scast %d : tensor<2x!p> to tensor<2xi8>
        "test.op"(%s, %r) : (tensor<2xi8>, tensor<2xi8>) -> ()
        """,
    ],
    ids=["two ops", "itself", "through casts", "through two pairs of casts"],
)
def test_circle(body: str):
    """Ops without a defined meaning are lowered, too."""
    module = lowered(body)
    assert names_of(module).count("test.op") == 1


def test_operands_of_one_op_are_replaced_at_once():
    """Replaced one by one, ten thousand operands take ten thousand times as long."""
    count = 2000
    lines = [
        f"%w{i} = quant.constant dense<[1, {i % 100 + 2}]> : tensor<2x!p>" for i in range(count)
    ]
    operands = ", ".join(f"%w{i}" for i in range(count))
    types = ", ".join(["tensor<2x!p>"] * count)
    module = lowered("\n".join([*lines, f'"test.op"({operands}) : ({types}) -> ()']))
    *_, user = module.ops
    casts = [operand.owner for operand in user.operands]
    assert all(isinstance(op, StorageCastOp) for op in casts)
    assert len(set(casts)) == count


def test_name_and_attributes_stay_with_the_constant():
    module = lowered(
        """
        %weight = quant.constant dense<[1, 2]> {profile = "w"} : tensor<2x!p>
        %turned = quant.reverse %weight dims = [0] {dropped} : tensor<2x!p> to tensor<2x!p>
        "test.op"(%turned) : (tensor<2x!p>) -> ()
        """
    )
    constant = next(op for op in module.ops if isinstance(op, arith.ConstantOp))
    assert constant.result.name_hint == "weight"
    assert constant.attributes == {"profile": StringAttr("w")}
    (generic,) = (op for op in module.ops if op.name == "linalg.generic")
    assert generic.results[0].name_hint == "turned"
    assert not generic.attributes


def test_nothing_is_changed_if_one_op_cannot_be_lowered():
    module = parse(
        ALIASES
        + """
        %w = quant.constant dense<[1, 2]> : tensor<2x!p>
        %x = "test.op"() : () -> tensor<?x?x!p>
        %y = quant.reshape %x : tensor<?x?x!p> to tensor<?x?x3x!p>
        "test.op"(%w, %y) : (tensor<2x!p>, tensor<?x?x3x!p>) -> ()
        """
    )
    before = text_of(module)
    with pytest.raises(OpErrors, match=r"'quant\.reshape' op cannot be lowered") as caught:
        LowerQuantShapesPass().apply(context(), module)
    ((op, _),) = caught.value.errors
    assert op.name == "quant.reshape"
    assert text_of(module) == before


def test_movement_without_an_entry(monkeypatch: pytest.MonkeyPatch):
    from qdialect.lowering import storage_ops

    monkeypatch.delitem(storage_ops.STORAGE_OPS, Reverse)
    with pytest.raises(OpErrors, match="no ops are known for the movement Reverse"):
        lowered(
            """
            %x = "test.op"() : () -> tensor<2x!p>
            %y = quant.reverse %x dims = [0] : tensor<2x!p> to tensor<2x!p>
            """
        )
