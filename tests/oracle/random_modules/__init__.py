"""
Random modules of shape ops of all dialects as text, with numpy's values.

numpy moves an array of positions to find the source of each element of a result. The source
determines everything else: the element's bits, scale and zero point, and its source constant.
"""

from random_modules.drawing import MAX_ELEMENTS, OPS, Op, functions
from random_modules.function import DEQUANTIZING, Function, Layer, Node, module_text
from random_modules.spelling import (
    PLAIN,
    Bits,
    Shape,
    Spelling,
    Storage,
    coarsest_blocks,
    spelled,
    tensor,
)
from random_modules.stablehlo_ops import stablehlo_concatenate, stablehlo_pad
from random_modules.tensor_ops import tensor_concat, tensor_insert_slice, tensor_pad
from random_modules.tosa_ops import tosa_concat, tosa_pad

__all__ = [
    "DEQUANTIZING",
    "MAX_ELEMENTS",
    "OPS",
    "PLAIN",
    "Bits",
    "Function",
    "Layer",
    "Node",
    "Op",
    "Shape",
    "Spelling",
    "Storage",
    "coarsest_blocks",
    "functions",
    "module_text",
    "spelled",
    "stablehlo_concatenate",
    "stablehlo_pad",
    "tensor",
    "tensor_concat",
    "tensor_insert_slice",
    "tensor_pad",
    "tosa_concat",
    "tosa_pad",
]
