"""
What functions compute: an evaluator that shares no code with the package.

It reads ops by their names and attributes, types by their text, and computes with numpy alone: each
element is its bits. An element that no module says anything about, such as padding which the
quantized type of the result cannot store, is unknown, and so is all that is computed from it.
"""

from evaluator.functions import evaluate
from evaluator.values import EvaluationError, Value, element_of, shape_of

__all__ = ["EvaluationError", "Value", "element_of", "evaluate", "shape_of"]
