"""
What is known of ops of any dialect: one model of each.

What a compiler says of its own ops with is exported here.
"""

from __future__ import annotations

from qdialect.support.lazy_exports import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from qdialect.ops.fields import (
        CastReads,
        Contraction,
        DialectTraits,
        Lookup,
        Movements,
        Operands,
        PoolWindow,
        QuantizationRule,
        Reduction,
        RuleKind,
        ShapeOpInterface,
        Window,
        fixed,
        own,
        shared,
        whole_number,
    )
    from qdialect.ops.interface import (
        axis_of,
        integer_of,
        integers_of,
        register_tensor_type,
        shape_of,
        static_shape_of,
    )
    from qdialect.ops.model import (
        Bits,
        Effects,
        OnElements,
        OnNumbers,
        OpModel,
        OpModels,
        register_models,
    )
    from qdialect.ops.refusals import Refusal, RefusalCode

__all__ = [
    "Bits",
    "CastReads",
    "Contraction",
    "DialectTraits",
    "Effects",
    "Lookup",
    "Movements",
    "OnElements",
    "OnNumbers",
    "OpModel",
    "OpModels",
    "Operands",
    "PoolWindow",
    "QuantizationRule",
    "Reduction",
    "Refusal",
    "RefusalCode",
    "RuleKind",
    "ShapeOpInterface",
    "Window",
    "axis_of",
    "fixed",
    "integer_of",
    "integers_of",
    "own",
    "register_models",
    "register_tensor_type",
    "shape_of",
    "shared",
    "static_shape_of",
    "whole_number",
]

_PLACES = {
    "model": "Bits Effects OnElements OnNumbers OpModel OpModels register_models",
    "interface": ("axis_of integer_of integers_of register_tensor_type shape_of static_shape_of"),
    "refusals": "Refusal RefusalCode",
}

__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    dict.fromkeys(__all__, "fields")
    | {name: place for place, names in _PLACES.items() for name in names.split()},
)
