"""The op that holds the recorded ranges of a value, which upstream's quant dialect lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override
from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import builder_arguments
from qdialect.ir.elements import DenseElementsAttr
from qdialect.ir.op_verifiers import VerifiedByAttributes
from qdialect.ir.value_types import element_type_or_self
from qdialect.ops.interface import Refusal
from qdialect.ops.statistics import statistics_of

if TYPE_CHECKING:
    pass


@irdl_op_definition
class StatisticsOp(VerifiedByAttributes):
    """
    Return a tensor of floats, with its recorded ranges.

    `layerStats` holds the minimum and the maximum, as a dense tensor of shape [2]. `axisStats`, of
    shape [N, 2], holds one range for each of the N positions of `axis`. `key` names the record, and
    `count` is the number of records in it. A minimum may equal its maximum. The op is not pure, so
    that no pass drops it unasked.

    The first three attributes are those of TensorFlow's op,
    https://github.com/tensorflow/tensorflow, `ptq/schemes/common/ir/QuantOps.td`.
    """

    name = "quant.stats"

    T: ClassVar = VarConstraint("T", AnyAttr())

    input = operand_def(T)
    result = result_def(T)

    layer_stats = prop_def(DenseElementsAttr, prop_name="layerStats")
    axis_stats = opt_prop_def(DenseElementsAttr, prop_name="axisStats")
    axis = opt_prop_def(IntegerAttr[I64])
    key = opt_prop_def(StringAttr)
    count = opt_prop_def(IntegerAttr[I64])

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "$input attr-dict `:` type($input)"

    def __init__(
        self,
        input: SSAValue | Operation,
        layer_stats: DenseElementsAttr,
        axis_stats: DenseElementsAttr | None = None,
        axis: int | None = None,
        *,
        key: str | None = None,
        count: int | None = None,
    ):
        """The ranges of one value. Raises TypeError for an operand of another kind."""
        value = builder_arguments.operand(input)
        super().__init__(
            operands=[value],
            result_types=[value.type],
            properties={
                "layerStats": layer_stats,
                "axisStats": axis_stats,
                "axis": None if axis is None else IntegerAttr(axis, i64),
                "key": None if key is None else StringAttr(key),
                "count": None if count is None else IntegerAttr(count, i64),
            },
        )

    @override
    def verify_(self) -> None:
        type = self.input.type
        if type == (of := element_type_or_self(type)) or not isinstance(of, AnyFloat):
            raise VerifyException(
                f"'{self.name}' op operand #0 must be tensor of floating-point values, "
                f"but got '{type}'"
            )
        shape = type.get_shape() if isinstance(type, TensorType) else None
        try:
            statistics_of(self, shape)
        except Refusal as error:
            raise VerifyException(f"'{self.name}' op {error}") from None
        if self.key is not None and not self.key.data:
            raise VerifyException(f"'{self.name}' op 'key' must not be empty")
        if self.count is not None and self.count.value.data < 1:
            raise VerifyException(f"'{self.name}' op 'count' must be at least 1")
