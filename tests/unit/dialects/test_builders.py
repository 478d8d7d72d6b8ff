"""The builders of types and ops accept no more than the parser does."""

# Arguments of wrong types are the subject.
# pyright: reportArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    f16,
    f32,
    i8,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qdialect import MovementError, Splat, Transpose
from qdialect.dialects import quant
from qdialect.dialects.quant import Storage, UniformQuantizedType, constants
from qdialect.dialects.quant.slots import Slots
from qdialect.folding import FoldPolicy, fold_shapes
from qdialect.text import parse_module

Refused = type[Exception]

I8 = Storage.of(i8)
PER_TENSOR = UniformQuantizedType.per_tensor(I8, f32, 0.5, 3)
NARROW = UniformQuantizedType.per_tensor(Storage.of(i8, minimum=-127), f32, 0.5)
I4 = UniformQuantizedType.per_tensor(Storage.of(IntegerType(4)), f32, 0.5)
U8 = UniformQuantizedType.per_tensor(Storage.of(i8, signed=False), f32, 0.5)
PER_AXIS = UniformQuantizedType.per_axis(I8, f32, 0, [0.5, 0.25], [0, 3])


def tensor(type: Attribute, *shape: int) -> TensorType[Attribute]:
    return TensorType(type, shape)


WEIGHT = quant.ConstantOp([[1, 2, 3], [4, 5, 6]], TensorType(PER_AXIS, [2, 3]))


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        (1, 2),
        range(1, 3),
        [np.int64(1), np.uint8(2)],
        *(np.array([1, 2], dtype=dtype) for dtype in ("i1", "u1", ">i4", "i8", "u8")),
        np.array([2, 1])[::-1],
    ],
)
def test_integers_of_any_kind_are_stored(values: object):
    for type in (PER_TENSOR, NARROW, I4, U8):
        op = quant.ConstantOp(values, TensorType(type, [2]))
        op.verify()
        assert np.asarray(op.values).tolist() == [1, 2]


def test_nested_empty_and_single_values():
    nested = quant.ConstantOp([[1, 2], [3, 4]], TensorType(PER_TENSOR, [2, 2]))
    assert np.asarray(nested.values).tolist() == [[1, 2], [3, 4]]
    empty = quant.ConstantOp([], TensorType(PER_TENSOR, [0]))
    empty.verify()
    assert empty.values.shape == (0,)
    splat = quant.ConstantOp(Splat(3, [4]), TensorType(PER_TENSOR, [4]))
    assert splat.values == Splat(np.int8(3), (4,))


@pytest.mark.parametrize(
    ("values", "type", "message"),
    [
        (np.array([1, 300]), PER_TENSOR, r"element \[1\] is 300, outside .* \[-128, 127\]"),
        (np.array([1, 200], dtype=np.uint8), PER_TENSOR, r"element \[1\] is 200, outside"),
        ([-129, 1], PER_TENSOR, r"element \[0\] is -129, outside"),
        (Splat(np.int64(300), (2,)), PER_TENSOR, "every element is 300, outside"),
        (np.array([0, 2**63], dtype=np.uint64), PER_TENSOR, "is 9223372036854775808, outside"),
        ([0, 9], I4, r"element \[1\] is 9, outside the storage range \[-8, 7\]"),
        (np.array([9, 0], dtype=np.int8), I4, r"element \[0\] is 9, outside"),
        ([300, 0], NARROW, r"element \[0\] is 300, outside the storage range \[-127, 127\]"),
        (np.array([0, -128], dtype=np.int8), NARROW, r"element \[1\] is -128, outside"),
        (np.array([0, -1], dtype=np.int8), U8, r"element \[1\] is -1, outside .* \[0, 255\]"),
    ],
)
def test_integers_that_cannot_be_stored(values: object, type: UniformQuantizedType, message: str):
    with pytest.raises(VerifyException, match=message):
        quant.ConstantOp(values, TensorType(type, [2]))


@pytest.mark.parametrize(
    ("values", "type", "error", "message"),
    [
        ([1.0, 2.0], tensor(PER_TENSOR, 2), TypeError, r"of dtype float64; quantize reals first"),
        ([True, False], tensor(PER_TENSOR, 2), TypeError, "integers, but are of dtype bool$"),
        (np.array([1, 2], dtype=object), tensor(PER_TENSOR, 2), TypeError, "of dtype object"),
        ("12", tensor(PER_TENSOR, 2), TypeError, "values must be storage integers"),
        (None, tensor(PER_TENSOR, 2), TypeError, "values must be storage integers"),
        (StringAttr("1"), tensor(PER_TENSOR, 2), TypeError, "or a dense attribute"),
        ([[1], [2, 3]], tensor(PER_TENSOR, 2), ValueError, "values must not be ragged"),
        (
            [1, 2],
            tensor(PER_TENSOR, 3),
            ValueError,
            r"of shape \[2\] cannot be a constant of shape",
        ),
        (Splat(1, (2,)), tensor(PER_TENSOR, 3), ValueError, r"cannot be a constant of shape \[3\]"),
        ([1, 2], PER_TENSOR, VerifyException, r"must be a tensor: TensorType\(element_type"),
        ([1, 2], tensor(f32, 2), VerifyException, "ranked tensor of uniform quantized type"),
        ([1, 2], tensor(PER_TENSOR, DYNAMIC_INDEX), VerifyException, "must have a static shape"),
        ([1, 2, 3], tensor(PER_AXIS, 3), VerifyException, "axis 0 of length 3, 2 scales"),
        ([1, 2], "tensor", TypeError, "result_type must be of class Attribute"),
    ],
)
def test_constants_that_cannot_be(values: object, type: object, error: Refused, message: str):
    with pytest.raises(error, match=message):
        quant.ConstantOp(values, type)


def test_elements_that_fill_the_storage_type_are_not_looked_at(monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the elements are looked at")

    monkeypatch.setattr(constants, "_check_in_range", refuse)
    quant.ConstantOp(np.array([1, 2], dtype=np.int8), TensorType(PER_TENSOR, [2]))
    quant.ConstantOp(np.array([1, 2], dtype=np.uint8), TensorType(U8, [2]))
    with pytest.raises(AssertionError, match="are looked at"):
        quant.ConstantOp(np.array([1, 2], dtype=np.int8), TensorType(I4, [2]))


per_tensor = UniformQuantizedType.per_tensor
per_axis = UniformQuantizedType.per_axis
sub_channel = UniformQuantizedType.sub_channel


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda: per_tensor(I8, f32, 1, np.int8(3)), "i8:f32, 1.000000e+00:3"),
        (lambda: per_tensor(I8, f32, np.float32(0.5), 3.0), "i8:f32, 5.000000e-01:3"),
        # MLIR accepts any zero point, too.
        (lambda: per_tensor(I8, f32, 0.5, 300), "i8:f32, 5.000000e-01:300"),
        (lambda: per_axis(I8, f32, np.int64(1), (0.5,), range(1)), "i8:f32:1, {5.000000e-01}"),
        (lambda: per_axis(I8, f32, 0, [1, 2], [-1, 4.0]), "{1.000000e+00:-1,2.000000e+00:4}"),
        (lambda: sub_channel(I8, f32, [(0, 2)], [0.5], [300]), "{0:2}, {5.000000e-01:44}"),
        (lambda: sub_channel(I8, f32, np.array([[0, 2]]), [0.5], [0]), "{0:2}, {5.000000e-01}"),
        (lambda: per_tensor(Storage.of(i8, minimum=np.int8(-5)), f32, 1), "i8<-5:127>:f32"),
    ],
)
def test_types_of_any_numbers(given: Callable[[], UniformQuantizedType], text: str):
    assert text in str(given())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: per_tensor(i8, f32, 0.5), TypeError, r"write Storage.of\(i8\), not i8"),
        (lambda: per_tensor("i8", f32, 0.5), TypeError, "storage must be of class Storage"),
        (lambda: per_tensor(I8, i8, 0.5), TypeError, "expressed_type must be a float type"),
        (lambda: per_tensor(I8, f32, "0.5"), TypeError, "scale must be a number, but is '0.5'"),
        (lambda: per_tensor(I8, f32, True), TypeError, "scale must be a number, but is True"),
        (lambda: per_tensor(I8, f32, [0.5]), TypeError, "scale must be one number"),
        (lambda: per_tensor(I8, f32, 0.5, None), TypeError, "zero_point must be a number"),
        (lambda: per_tensor(I8, f32, 0.5, True), TypeError, "zero_point must be a number"),
        (lambda: per_tensor(I8, f32, 0.5, 3.7), ValueError, "integers, but 3.7 is not"),
        (lambda: per_tensor(I8, f32, 0.5, 2**63), ValueError, "must fit 64 bits"),
        (lambda: per_tensor(I8, f32, 0.5, 2**70), ValueError, "must fit 64 bits"),
        (lambda: per_tensor(I8, f32, float("nan")), VerifyException, "nan is not a number"),
        (lambda: per_tensor(I8, f32, float("inf")), VerifyException, "scale INF out of"),
        (lambda: per_tensor(I8, f32, -1.0), VerifyException, "scale -1.000000e.00 out of"),
        (lambda: per_tensor(I8, f32, 0), VerifyException, "scale 0.000000e.00 out of"),
        (lambda: per_tensor(I8, f32, 1e-60), VerifyException, "scale 1.000000e-60 out of"),
        (lambda: per_tensor(I8, f16, 1e-9), VerifyException, "scale 1.000000e-09 out of"),
        (lambda: per_tensor(I8, f16, 1e6), VerifyException, "scale 1.000000e.06 out of"),
        (lambda: per_axis(I8, f32, 0.5, [1], [0]), TypeError, "axis must be an integer"),
        (lambda: per_axis(I8, f32, -1, [1], [0]), VerifyException, "quantized dimension: -1"),
        (lambda: per_axis(I8, f32, 2**31, [1], [0]), VerifyException, "illegal quantized dim"),
        (lambda: per_axis(I8, f32, 0, [1], [0.7]), ValueError, "integers, but 0.7 is not"),
        (lambda: per_axis(I8, f32, 0, [1, 2], [0]), ValueError, "do not pair up"),
        (lambda: per_axis(I8, f32, 0, [[1]], [[0]]), ValueError, "use sub_channel"),
        (lambda: per_axis(I8, f32, 0, 1.0, 0), ValueError, "one dimension, but these have 0"),
        (lambda: per_axis(I8, f32, 0, [], []), VerifyException, "at least one scale"),
        (lambda: per_axis(I8, f32, 0, [1, np.nan], [0, 0]), VerifyException, "not a number"),
        (lambda: per_axis(I8, f32, 0, [1, "2"], [0, 0]), TypeError, "scales must be numbers"),
        (lambda: per_axis(I8, f32, 0, [1j], [0]), TypeError, "scales must be numbers"),
        (lambda: sub_channel(I8, f32, {0: 1}, [1], [0]), TypeError, "blocks must be a sequence"),
        (lambda: sub_channel(I8, f32, [0], [1], [0]), TypeError, r"blocks\[0\] must be"),
        (lambda: sub_channel(I8, f32, [(0, 1, 2)], [1], [0]), TypeError, "its block size"),
        (lambda: sub_channel(I8, f32, [(0, 1.0)], [1], [0]), TypeError, "must be an integer"),
        (lambda: sub_channel(I8, f32, [(0, 0)], [1], [0]), VerifyException, "block size: 0"),
        (lambda: sub_channel(I8, f32, [(-1, 1)], [1], [0]), VerifyException, "dimension: -1"),
        (lambda: sub_channel(I8, f32, [(0, 1)], [np.nan], [0]), VerifyException, "not a number"),
        (lambda: sub_channel(I8, f16, [(0, 1)], [1e9], [0]), VerifyException, "out of expressed"),
        (lambda: Storage.of(f32), TypeError, "must be of class IntegerType"),
        (lambda: Storage.of(8), TypeError, "must be of class IntegerType"),
        (lambda: Storage.of(i8, minimum=2.5), TypeError, "minimum must be an integer"),
        (lambda: Storage.of(i8, signed="no"), TypeError, "signed must be of class bool"),
        (
            lambda: Storage.of(IntegerType(8, Signedness.UNSIGNED), signed=True),
            ValueError,
            "'ui8' cannot have signed=True",
        ),
        (
            lambda: Storage.of(IntegerType(8, Signedness.SIGNED), signed=False),
            ValueError,
            "'si8' cannot have signed=False",
        ),
        (
            lambda: per_tensor(Storage.of(i8, minimum=-300), f32, 1),
            VerifyException,
            r"illegal storage min and storage max: \(-300:127\)",
        ),
        (
            lambda: quant.CalibratedQuantizedType.of(f32, "0", 1),
            TypeError,
            "minimum must be a number",
        ),
        (
            lambda: quant.CalibratedQuantizedType.of(i8, 0, 1),
            TypeError,
            "expressed_type must be a float type",
        ),
    ],
)
def test_types_that_cannot_be(given: Callable[[], object], error: Refused, message: str):
    with pytest.raises(error, match=message):
        given()


def test_parameters_of_another_type():
    of_f16 = UniformQuantizedType.per_tensor(I8, f16, 0.5).parameters_on([2])
    with pytest.raises(ValueError, match=r"expressed type f16 and .* but the type has f32"):
        PER_TENSOR.with_parameters(of_f16)
    with pytest.raises(ValueError, match="signed=False"):
        PER_TENSOR.with_parameters(U8.parameters_on([2]))
    with pytest.raises(TypeError, match="parameters must be of class QuantizationParameters"):
        PER_TENSOR.with_parameters(PER_TENSOR)
    for shape in ([-2], [DYNAMIC_INDEX]):
        with pytest.raises(ValueError, match="is not a static shape"):
            PER_TENSOR.parameters_on(shape)


def test_a_scale_that_is_read_as_nan_moves_on():
    """MLIR has such types, and so the reader accepts them; nobody makes one on purpose."""
    for slots in (
        Slots.per_tensor(float("nan"), 0),
        Slots.per_axis(0, np.full(2, np.nan), np.zeros(2, int)),
    ):
        type = UniformQuantizedType.of_slots(I8, f32, slots)
        assert str(type.with_parameters(type.parameters_on([2]))).count("0x7FF8000000000000") == 1


def test_sequences_of_any_kind_say_how_elements_move():
    for permutation in ([1, 0], (1, 0), range(1, -1, -1), np.array([1, 0]), [np.int64(1), 0]):
        op = quant.TransposeOp(WEIGHT, permutation)
        op.verify()
        assert op.movement == Transpose((1, 0))
    quant.ConcatOp((WEIGHT, WEIGHT.result), np.int64(1)).verify()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: quant.TransposeOp(WEIGHT, [0, 0]), MovementError, "each of 2 axes once"),
        (lambda: quant.TransposeOp(WEIGHT, [1, 2]), MovementError, "each of 2 axes once"),
        (lambda: quant.TransposeOp(WEIGHT, [1.0, 0.0]), TypeError, "must be an integer, but"),
        (lambda: quant.TransposeOp(WEIGHT, 1), TypeError, "sequence of integers, but is 1"),
        (lambda: quant.TransposeOp(None, [1, 0]), TypeError, "operand must be of class SSAValue"),
        (lambda: quant.TransposeOp(WEIGHT, [1, 0], "x"), TypeError, "result_type must be"),
        (lambda: quant.ReshapeOp(WEIGHT, [7]), MovementError, "6 elements cannot be"),
        (lambda: quant.ReshapeOp(WEIGHT, [-1]), MovementError, "is not a shape"),
        (lambda: quant.ReshapeOp(WEIGHT, [DYNAMIC_INDEX]), MovementError, "give a result type"),
        (lambda: quant.SliceOp(WEIGHT, [0, 0], [2, 9], [1, 1]), MovementError, "of length 3"),
        (lambda: quant.SliceOp(WEIGHT, [0], [2, 2], [1, 1]), MovementError, "differ in length"),
        (lambda: quant.SliceOp(WEIGHT, [0, 0], [2, 2], [1, 0]), MovementError, "0, 0 and 1"),
        (lambda: quant.ConcatOp([WEIGHT], 2), MovementError, "axis 2 is out of range for rank 2"),
        (lambda: quant.ConcatOp([WEIGHT], -1), MovementError, "axis -1 is negative"),
        (lambda: quant.ConcatOp([WEIGHT], 0.0), TypeError, "dim must be an integer"),
        (lambda: quant.ConcatOp(WEIGHT, 0), TypeError, "must be a sequence of values"),
        (lambda: quant.ConcatOp([], 0), MovementError, "needs at least one operand"),
        (lambda: quant.BroadcastInDimOp(WEIGHT, [0, 0], [2, 3]), MovementError, "not different"),
        (lambda: quant.BroadcastInDimOp(WEIGHT, [0, 1], [2, 4]), MovementError, "broadcast to 4"),
        (lambda: quant.ReverseOp(WEIGHT, [2]), MovementError, "not different axes of 2"),
        (lambda: quant.ReverseOp(WEIGHT, 0), TypeError, "sequence of integers"),
        (lambda: quant.PadOp(WEIGHT, [0, -1], [0, 0]), MovementError, "must not be negative"),
        (
            lambda: quant.PadOp(WEIGHT, [0], [0]),
            MovementError,
            "do not match the rank 2 of the operand",
        ),
        (lambda: quant.DequantizeCastOp(WEIGHT, None), TypeError, "result_type must be"),
        (lambda: quant.DequantizeCastOp(None, f32), TypeError, "operand must be of class"),
        (lambda: quant.infer_result_type(None, [WEIGHT]), TypeError, "movement must be of class"),
        (lambda: quant.infer_result_type(Transpose((1, 0)), WEIGHT), TypeError, "sequence"),
        (
            lambda: quant.infer_result_type(Transpose((1, 0)), [WEIGHT, WEIGHT]),
            MovementError,
            "Transpose does not move 2 operands",
        ),
        (
            lambda: quant.ConcatOp(
                [WEIGHT, quant.ConstantOp([[1, 2, 3]], TensorType(NARROW, [1, 3]))], 0
            ),
            VerifyException,
            "operands must store the same integers.*'i8:f32' and 'i8<-127:127>:f32'",
        ),
        (lambda: FoldPolicy(granularity="per-axis"), TypeError, "granularity must be of class"),
        (lambda: FoldPolicy(max_growth="1GiB"), TypeError, "max-growth must be an integer"),
        (lambda: FoldPolicy(max_growth=1.5), TypeError, "max-growth must be an integer"),
        (lambda: FoldPolicy(max_growth=None), TypeError, "max-growth must be an integer"),
        (lambda: FoldPolicy(max_growth=-1), ValueError, "must not be negative"),
        (lambda: FoldPolicy(max_parameter_growth=0.5), TypeError, "max-parameter-growth must be"),
        (lambda: fold_shapes(WEIGHT, Context(), FoldPolicy()), TypeError, "module must be"),
        (lambda: fold_shapes(ModuleOp([]), None, FoldPolicy()), TypeError, "context must be"),
        (lambda: fold_shapes(ModuleOp([]), Context(), None), TypeError, "policy must be"),
        (lambda: parse_module(Context(), 3), TypeError, "text must be str or bytes, not 3"),
    ],
)
def test_ops_that_cannot_be(given: Callable[[], object], error: Refused, message: str):
    with pytest.raises(error, match=message):
        given()


def test_a_dynamic_operand_needs_a_result_type():
    dynamic = quant.TransposeOp(WEIGHT, [1, 0], TensorType(PER_TENSOR, [DYNAMIC_INDEX, 2]))
    with pytest.raises(VerifyException, match="operand #0 has a dynamic shape: give a result type"):
        quant.ReverseOp(dynamic, [0])


def test_repr_is_short():
    """A notebook shows it, and so does a failing assertion."""
    count = 100_000
    many = per_axis(I8, f32, 0, np.full(count, 0.5), np.zeros(count))
    op = quant.ConstantOp(np.arange(count) % 100, TensorType(many, [count]))
    assert len(repr(op)) < 1000
    assert len(repr(many)) < 1000
    assert f"{count} bytes of i8" in repr(op)
    assert f"{count} slots of shape ({count},)" in repr(many)
    assert "5.000000e-01,2.500000e-01:3" in repr(PER_AXIS)
    small = quant.ConstantOp([1, 2], TensorType(PER_TENSOR, [2]))
    assert str(small) == (
        "%0 = quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    )
    assert "ConstantOp" in repr(quant.ConstantOp.create())
