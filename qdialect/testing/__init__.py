"""
Tests of models of ops, and random shapes, types, constants, movements and modules for other tests.

`check_movement` and `check_run` make a test of one op. The rest are strategies of hypothesis.
The package needs the extra `testing`, and nothing else in qdialect imports it. See
docs/testing_models.md.
"""

from qdialect.testing.modules import RandomModule, modules
from qdialect.testing.movements import joins, numpy_moves, unary_movements
from qdialect.testing.op_checks import check_movement, check_run
from qdialect.testing.tensors import (
    STORAGES,
    Constant,
    constants,
    dequantized,
    parameters,
    quantized_tensor,
    shapes,
)

__all__ = [
    "STORAGES",
    "Constant",
    "RandomModule",
    "check_movement",
    "check_run",
    "constants",
    "dequantized",
    "joins",
    "modules",
    "numpy_moves",
    "parameters",
    "quantized_tensor",
    "shapes",
    "unary_movements",
]
