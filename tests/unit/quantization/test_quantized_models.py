"""
Models that are quantized from their ranges, read by rules that are written anew.

What is checked are the casts in the text: which types stand before and after each op.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from dequantizing_arithmetic import Module
from hypothesis import given, note
from hypothesis import strategies as st
from mlir_tools import run_mlir_opt, upstream
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    QuantizeCastOp,
    RequantizeOp,
    UniformQuantizedType,
)
from qdialect.dialects.quant.types import uniform_tensor
from qdialect.interpreters import run_function
from qdialect.ir.value_types import element_type_or_self, is_tensor
from qdialect.passes.quantize_with_ranges import QuantizeWithRangesPass

pytestmark = pytest.mark.usefixtures("without_plugins")
