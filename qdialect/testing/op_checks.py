"""Tests of models of ops against numpy, which does not read the models."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
from hypothesis import given
from hypothesis import settings as Settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from qdialect.algebra.movement import Shape
from qdialect.algebra.views import as_view
from qdialect.check.interpreters import TypedArray, random_arguments, run_function
from qdialect.dialects.quant import ConstantOp, DequantizeCastOp, Storage
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.testing.tensors import STORAGES, constants, dequantized, first_index, shapes

Shapes: TypeAlias = st.SearchStrategy[Shape] | st.SearchStrategy[list[Shape]]
"""The shape of the operand, or a list with the shape of each operand."""

Attributes: TypeAlias = (
    Mapping[str, st.SearchStrategy[Any]] | Callable[..., Mapping[str, st.SearchStrategy[Any]]]
)
"""A strategy for each attribute, or a function of the shapes that returns them."""

Builder: TypeAlias = Callable[..., Operation | Sequence[Operation]]
"""
Makes the op: `build(operands, result_type, **attributes)`.

It may return several ops, of which the last is the one to test.
"""

Test: TypeAlias = Callable[[], None]

ANY_SHAPES: Final = shapes()
"""The shapes of one operand, if no others are given."""

DTYPES: Final[Mapping[Attribute, np.dtype[Any]]] = {
    type: np.dtype(name)
    for type, name in (
        *((f16, "f2"), (f32, "f4"), (f64, "f8"), (i1, "?")),
        *((i8, "i1"), (i16, "i2"), (i32, "i4"), (i64, "i8")),
    )
}
"""The dtype of the arrays of a reference, by the element type of the tensors."""


def check_movement(
    op: str | Builder,
    reference: Callable[..., NDArray[Any]],
    shapes: Shapes = ANY_SHAPES,
    attributes: Attributes | None = None,
    *,
    storages: Sequence[Storage] = STORAGES,
    context: ToolContext | None = None,
    settings: Settings | None = None,
) -> Test:
    """
    A test that an op which moves elements is folded into quantized constants as numpy moves them.

    Constants of all granularities and of `storages` are dequantized, and `op` stands behind the
    casts. The result of `--fold-quant-shapes` must be a constant and a cast. Dequantized, it must
    have the bits of `reference(*numbers, **attributes)`, where `numbers` are the dequantized
    operands, of float32. NaN equals NaN. The reference also gives the shape of the result.

    `op` is the name of an op, or a function that builds it. A named op gets the drawn attributes
    as properties, if its class declares them, or else as attributes: bools, integers as i64,
    texts, lists of integers as arrays of i64, and attributes of xDSL as they are.

    `context` knows the op; by default, it is one of qdialect's tools, which searches plug-ins.
    `settings` are those of hypothesis; by default, those of the profile, without a deadline.

    The test takes no arguments. It raises AssertionError where the op is not folded, with the
    reason, or where a number differs. Verifiers of ops raise VerifyException. A value that is not
    of these kinds raises TypeError.
    """

    used = context or ToolContext(allow_unregistered=True)

    @(settings or Settings(deadline=None, report_multiple_bugs=False))
    @given(st.data())
    def test(data: st.DataObject) -> None:
        operands, values = _drawn(data, shapes, attributes)
        storage = data.draw(st.sampled_from(storages))
        weights = [data.draw(constants(shape, [storage])) for shape in operands]
        expected = np.asarray(reference(*(weight.numbers for weight in weights), **values), "f4")
        sources = [weight.op() for weight in weights]
        casts = [
            DequantizeCastOp(source.result, TensorType(f32, shape))
            for source, shape in zip(sources, operands, strict=True)
        ]
        result = TensorType(f32, expected.shape)
        tested = _built(used, op, [cast.result for cast in casts], result, values)
        block = Block([*sources, *casts])
        module = _module(block, tested)
        text, name = str(module), name_of(tested[-1])
        FoldQuantShapesPass(max_parameter_growth=1 << 20).apply(used, module)
        module.verify()
        report = used.fold_reports.pop()
        folded = _folded(block)
        if folded is None:
            reasons = "; ".join(record.reason for record in report.records)
            raise AssertionError(f"'{name}' is not folded: {reasons}\n{text}")
        if (index := first_index(_bits(folded) != _bits(expected))) is not None:
            raise AssertionError(
                f"'{name}' is folded to {folded[index]} at {list(index)}, "
                f"where the reference has {expected[index]}\n{text}\n{module}"
            )

    return test


def check_run(
    op: str | Builder,
    reference: Callable[..., NDArray[Any]],
    shapes: Shapes = ANY_SHAPES,
    attributes: Attributes | None = None,
    *,
    elements: Sequence[Attribute | tuple[Attribute, ...]] = (f32,),
    tolerance: float = 0.0,
    context: ToolContext | None = None,
    settings: Settings | None = None,
) -> Test:
    """
    A test that the interpreter computes with an op what numpy does.

    Each of `elements` is the element type of all operands, or a tuple with that of each. It may
    list more than there are operands. A type is f16, f32, f64, i1, i8, i16, i32 or i64. The
    arrays of the reference have the dtype of that type, and the dtype and the shape of what it
    returns are the type of the result. Other arguments are those of `check_movement`.

    Numbers must be equal: NaN equals NaN, and 0.0 equals -0.0. The interpreter computes functions
    of elements in float64, and rounds once. With a `tolerance`, floats may differ by it, and by its
    multiple of the number. Then, arguments are numbers around zero. Otherwise, they are of all
    magnitudes, with infinities and NaN.

    The test raises AssertionError where a number differs, OpInterpretationError for an op
    that cannot be run, and ValueError for a type that is not in the list.
    """

    used = context or ToolContext(allow_unregistered=True)

    @(settings or Settings(deadline=None, report_multiple_bugs=False))
    @given(st.data())
    def test(data: st.DataObject) -> None:
        operands, values = _drawn(data, shapes, attributes)
        drawn = data.draw(st.sampled_from(elements))
        kinds = drawn[: len(operands)] if isinstance(drawn, tuple) else (drawn,) * len(operands)
        dtypes = [_dtype_of(kind) for kind in kinds]
        types = [TensorType(*pair) for pair in zip(kinds, operands, strict=True)]
        seed = data.draw(st.integers(0, 2**32 - 1))
        arguments = random_arguments(FunctionType.from_lists(types, []), seed)
        numbers = [argument.numbers for argument in arguments]
        if tolerance:
            near = np.random.default_rng(seed).normal
            numbers = [near(size=n.shape) if n.dtype.kind == "f" else n for n in numbers]
        arrays = [array.astype(dtype) for array, dtype in zip(numbers, dtypes, strict=True)]
        arguments = [TypedArray.of_numbers(*pair) for pair in zip(arrays, types, strict=True)]
        with np.errstate(all="ignore"):
            expected = np.asarray(reference(*arrays, **values))
        result = TensorType(_type_of(expected.dtype), expected.shape)
        block = Block(arg_types=types)
        module = _module(block, _built(used, op, block.args, result, values))
        (actual,) = run_function(module, "main", arguments, used)
        # A true bit is -1 as an integer.
        computed = actual.numbers.astype(expected.dtype)
        hint = "floats are computed in float64, and rounded once\n"
        message = f"{hint if computed.dtype.kind == 'f' else ''}{module}"
        assert_allclose(computed, expected, tolerance, tolerance, err_msg=message)

    return test


def _drawn(
    data: st.DataObject, shapes: Shapes, attributes: Attributes | None
) -> tuple[list[Shape], dict[str, Any]]:
    """The shapes of the operands, and the attributes."""
    drawn = data.draw(cast("st.SearchStrategy[Shape | list[Shape]]", shapes), "shapes")
    operands = drawn if isinstance(drawn, list) else [drawn]
    strategies = attributes(*operands) if callable(attributes) else attributes or {}
    return operands, {name: data.draw(values, name) for name, values in strategies.items()}


def _built(
    context: ToolContext,
    op: str | Builder,
    operands: Sequence[SSAValue],
    result: TensorType[Any],
    values: Mapping[str, Any],
) -> Sequence[Operation]:
    if not isinstance(op, str):
        built = op(operands, result, **values)
        return [built] if isinstance(built, Operation) else built
    cls = context.get_op(op)
    is_declared = issubclass(cls, IRDLOperation)
    properties = cls.get_irdl_definition().properties if is_declared else ()
    written = {name: _attribute_of(name, value) for name, value in values.items()}
    return [
        cls.create(
            operands=operands,
            result_types=[result],
            properties={name: written[name] for name in written if name in properties},
            attributes={name: written[name] for name in written if name not in properties},
        )
    ]


def _attribute_of(name: str, value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, str):
        return StringAttr(value)
    try:
        if isinstance(value, Sequence | np.ndarray):
            return DenseArrayBase.from_list(i64, [*map(operator.index, cast("Any", value))])
        return IntegerAttr(operator.index(value), i64)
    except TypeError:
        raise TypeError(
            f"'{name}' is {value!r}, which is no integer, text or list of integers: "
            "give an attribute, or a function that builds the op"
        ) from None


def _module(block: Block, ops: Sequence[Operation]) -> ModuleOp:
    """The function `main` of a block, with ops behind it, that returns the result of the last."""
    results = ops[-1].results
    block.add_ops([*ops, ReturnOp(*results)])
    types = block.arg_types, [result.type for result in results]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    module.verify()
    return module


def _folded(block: Block) -> NDArray[np.float32] | None:
    """The dequantized constant that a block returns; None if it returns something else."""
    last = block.last_op
    cast = None if last is None else last.operands[0].owner
    source = cast.operands[0].owner if isinstance(cast, DequantizeCastOp) else None
    if not isinstance(source, ConstantOp):
        return None
    type = uniform_tensor(source.result.type)
    slots = type.element_type.parameters_on(type.get_shape())
    return dequantized(as_view(source.values).array(), slots)


def _bits(numbers: NDArray[np.float32]) -> NDArray[np.uint32]:
    """The bits of numbers, and one pattern for all NaN."""
    return np.where(np.isnan(numbers), np.float32("nan"), numbers).view(np.uint32)


def _dtype_of(type: Attribute) -> np.dtype[Any]:
    if type not in DTYPES:
        raise ValueError(f"elements are {', '.join(map(str, DTYPES))}, not '{type}'")
    return DTYPES[type]


def _type_of(dtype: np.dtype[Any]) -> Attribute:
    for type, known in DTYPES.items():
        if known == dtype:
            return type
    raise ValueError(f"the reference returns {dtype}, which no element type of a tensor is")
