"""The elements of `dense_resource` attributes."""

import math
import shutil
import subprocess
from io import StringIO
from typing import cast, get_args

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    ShapedType,
    Signedness,
    TensorType,
    VectorType,
    f32,
    f64,
    f80,
    i1,
    i8,
    tf32,
)

from qdialect.algebra.movement import Transpose
from qdialect.algebra.views import Elements, Splat, as_view
from qdialect.ir.elements import DenseElementsAttr, dense_elements, element_dtype, elements_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

# Elements as text, and as MLIR has them in memory.
LAYOUTS = [
    ("dense<[-1, 2]> : tensor<2xi8>", "FF02"),
    ("dense<[255, 2]> : tensor<2xui8>", "FF02"),
    ("dense<[true, false, true]> : tensor<3xi1>", "010001"),
    ("dense<[-8, 7]> : tensor<2xi4>", "0807"),
    ("dense<[-2, 1]> : tensor<2xi12>", "FE0F0100"),
    ("dense<[-2, 1]> : tensor<2xi24>", "FEFFFF010000"),
    ("dense<[[-2], [1]]> : tensor<2x1xsi32>", "FEFFFFFF01000000"),
    ("dense<[-1, 1]> : tensor<2xindex>", "FF" * 8 + "01" + "00" * 7),
    ("dense<[1.0, -0.0]> : tensor<2xf32>", "0000803F00000080"),
    ("dense<[0x7FA00001, 0x7FC00000]> : vector<2xf32>", "0100A07F0000C07F"),
    ("dense<[1.0, -1.0]> : tensor<2xbf16>", "803F80BF"),
    ("dense<[1.0, -1.0]> : tensor<2xtf32>", "00FC0100FC05"),
    ("dense<[1.0, -1.0]> : tensor<2xf4E2M1FN>", "020A"),
    ("dense<[(1.0, -0.0), (2.0, 0.0)]> : tensor<2xcomplex<f16>>", "003C008000400000"),
    ("dense<[(-1, 1), (0, 2)]> : tensor<2xcomplex<i24>>", "FFFFFF010000000000020000"),
    ("dense<5> : tensor<i16>", "0500"),
    ("dense<> : tensor<0x3xf32>", ""),
]
FLOATS: list[AnyFloat] = [type() for type in get_args(AnyFloat) if type.name not in ("f80", "f128")]
TYPES: list[AnyDenseElement] = [
    *FLOATS,
    *(
        IntegerType(width, signedness)
        for width in (1, 4, 8, 12, 24, 32, 63, 64)
        for signedness in Signedness
    ),
    IndexType(),
    *map(ComplexType, (f32, f64, tf32, i1, IntegerType(24))),
]


def blobs_with(text: str) -> ResourceBlobs:
    interface = OpAsmDialectInterface()
    assert interface.declare_resource("k") == "k"
    if text:
        interface.parse_resource("k", text)
    return ResourceBlobs(interface)


def resource(type: ShapedType, key: str = "k") -> DenseResourceAttr:
    return DenseResourceAttr.from_params(key, type)


def text_of(blobs: ResourceBlobs, attribute: DenseResourceAttr) -> str | None:
    assert blobs.interface is not None
    return blobs.interface.lookup(attribute.resource_handle.data)


def dense(text: str) -> DenseElementsAttr:
    return cast(DenseElementsAttr, LocatingParser(ToolContext(), text).parse_attribute())


def assert_same(values: Elements | None, expected: Elements) -> None:
    assert values is not None
    assert type(values) is type(expected)
    values, expected = as_view(values).array(), as_view(expected).array()
    assert values.dtype == expected.dtype
    assert values.shape == expected.shape
    assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("text", "data"), LAYOUTS)
def test_layout(text: str, data: str):
    attribute = dense(text)
    values, type = elements_of(attribute), attribute.get_element_type()
    blobs = blobs_with(f"0x40000000{data}")
    assert_same(blobs.read(resource(attribute.type)), values)
    written = blobs.write(values, type, "k", alignment=64)
    assert written == resource(TensorType(type, attribute.get_shape()), "k_0")
    assert text_of(blobs, written) == f"0x40000000{data}"


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (TensorType(i8, [2]), ""),
        (TensorType(i8, [2]), "0x"),
        (TensorType(i8, [2]), "0x0100"),
        (TensorType(i8, [2]), "0x01000000"),
        (TensorType(i8, [2]), "0x0100000001"),
        (TensorType(i8, [2]), "0x01000000010203"),
        (TensorType(i8, [2]), "0x01000000010"),
        (TensorType(i8, [2]), "0x010000000x02"),
        (TensorType(i8, [2]), "0x010000000 02"),
        (TensorType(i8, [2]), "0x000000000102"),
        (TensorType(i8, [2]), "0x030000000102"),
        (TensorType(i8, [2]), "0x 10000000102"),
        (TensorType(f32, [2]), "0x04000000010203"),
        # One byte for all, bits, two elements in a byte, or sign-extended.
        (TensorType(i8, [8]), "0x0100000001"),
        (TensorType(i1, [8]), "0x0100000001"),
        (TensorType(i1, [2]), "0x01000000FF01"),
        (TensorType(IntegerType(4), [4]), "0x010000001234"),
        (TensorType(IntegerType(4), [2]), "0x01000000F807"),
        (TensorType(tf32, [1]), "0x01000000000008"),
        (TensorType(f80, [1]), "0x01000000" + "00" * 10),
        (TensorType(IntegerType(128), [1]), "0x01000000" + "00" * 16),
        (TensorType(IndexType(), [1]), "0x0100000000000000"),
        (TensorType(TensorType(i8, [1]), [1]), "0x0100000000"),
        (TensorType(i8, [DYNAMIC_INDEX]), "0x0100000000"),
        (TensorType(i8, [1] * 65), "0x0100000000"),
        (MemRefType(i8, [2]), "0x010000000102"),
    ],
)
def test_what_is_not_certain_is_not_read(type: ShapedType, text: str):
    assert blobs_with(text).read(resource(type)) is None


def test_no_blob():
    assert blobs_with("0x0100000001").read(resource(TensorType(i8, [1]), "__elided__")) is None
    nowhere = ResourceBlobs.of(Context())
    assert nowhere.read(resource(TensorType(i8, [1]))) is None
    assert nowhere.alignment_of(resource(TensorType(i8, [1]))) is None
    with pytest.raises(ValueError, match="has no builtin dialect that keeps blobs"):
        nowhere.write(Splat(np.int8(1), (1,)), i8, "k")


def test_context_whose_builtin_dialect_is_not_loaded():
    context = ToolContext()
    written = ResourceBlobs.of(context).write(Splat(np.int8(1), (2,)), i8, "k")
    assert_same(ResourceBlobs.of(context).read(written), Splat(np.int8(1), (2,)))
    assert ResourceBlobs.of(ToolContext()).read(written) is None


def test_keys_are_kept_or_made_unique():
    blobs = ResourceBlobs(OpAsmDialectInterface())
    keys: list[str] = []
    for value in range(3):
        written = blobs.write(Splat(np.int8(value), (1,)), i8, "w")
        keys.append(written.resource_handle.data)
        assert_same(blobs.read(written), Splat(np.int8(value), (1,)))
    assert keys == ["w", "w_0", "w_1"]


def test_splats_are_written_out():
    blobs = ResourceBlobs(OpAsmDialectInterface())
    splat = Splat(np.uint32(0x80000000), (2, 2))
    written = blobs.write(splat, f32, "k")
    assert text_of(blobs, written) == "0x04000000" + 4 * "00000080"
    assert_same(blobs.read(written), splat)


def test_what_moved_is_written():
    blobs = blobs_with("0x01000000010203040506")
    values = blobs.read(resource(TensorType(i8, [2, 3])))
    assert values is not None
    written = blobs.write(Transpose((1, 0))(as_view(values)), i8, "t")
    assert text_of(blobs, written) == "0x01000000010402050306"
    assert written.type == TensorType(i8, [3, 2])


@pytest.mark.parametrize(
    ("type", "alignment"),
    [(i8, 1), (i1, 1), (IntegerType(24), 4), (tf32, 4), (IndexType(), 8), (ComplexType(f64), 8)],
)
def test_alignment(type: AnyDenseElement, alignment: int):
    blobs = ResourceBlobs(OpAsmDialectInterface())
    values = np.zeros(2, dtype=element_dtype(type))
    assert blobs.alignment_of(blobs.write(values, type, "k")) == alignment
    assert blobs.alignment_of(blobs.write(values, type, "k", alignment=64)) == 64
    for wrong in (0, 3, -1, 1 << 32):
        with pytest.raises(ValueError, match=f"{wrong} is not an alignment"):
            blobs.write(values, type, "k", alignment=wrong)


def test_values_of_another_dtype_are_not_written():
    blobs = ResourceBlobs(OpAsmDialectInterface())
    with pytest.raises(TypeError, match="are of dtype uint32, not of float32"):
        blobs.write(np.zeros(2, dtype=np.float32), f32, "k")


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
def test_blobs_are_read_by_mlir_opt():
    """It writes each element type back as it was, and does not see what is not used."""
    context = ToolContext()
    blobs = ResourceBlobs.of(context)
    op = xdsl_test.TestOp()
    module = ModuleOp([op])
    expected: dict[str, Elements] = {}
    for number, type in enumerate(TYPES):
        random = np.random.default_rng(number).bytes(6 * element_dtype(type).itemsize)
        attribute = DenseIntOrFPElementsAttr(TensorType(type, [2, 3]), BytesAttr(random))
        expected[f"a{number}"] = elements_of(attribute)
        op.attributes[f"a{number}"] = blobs.write(elements_of(attribute), type, f"k{number}")
    blobs.write(Splat(np.int8(1), (1,)), i8, "unused")

    stream = StringIO()
    printer = MLIRPrinter(stream=stream)
    printer.print_op(module)
    printer.print_metadata(context.loaded_dialects)
    assert "unused" not in stream.getvalue()
    said = subprocess.run(
        ["mlir-opt-22", "--allow-unregistered-dialect"],
        input=stream.getvalue(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    context = ToolContext()
    (op,) = LocatingParser(context, said).parse_module().ops
    blobs = ResourceBlobs.of(context)
    assert op.attributes.keys() == expected.keys()
    for name, values in expected.items():
        attribute = cast(DenseResourceAttr, op.attributes[name])
        assert_same(blobs.read(attribute), values)


def test_blobs_hold_what_dense_attributes_hold():
    blobs = ResourceBlobs(OpAsmDialectInterface())
    for type in TYPES:
        random = np.random.default_rng(0).bytes(math.prod((13, 9)) * element_dtype(type).itemsize)
        held = DenseIntOrFPElementsAttr(VectorType(type, [13, 9]), BytesAttr(random))
        values = elements_of(held)
        again = blobs.read(blobs.write(values, type, "k"))
        assert again is not None
        assert dense_elements(again, type) == dense_elements(values, type)
