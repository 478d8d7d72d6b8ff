"""
An evaluator of functions that shares no code with the package.

It reads ops by name and attributes, and types by their text, and computes with numpy alone on
the bits of elements. An element without a defined value, such as padding that the quantized
type of the result cannot store, is unknown, and so is everything computed from it.
"""

from evaluator.functions import evaluate
from evaluator.values import EvaluationError, Value, element_of, shape_of

__all__ = ["EvaluationError", "Value", "element_of", "evaluate", "shape_of"]
