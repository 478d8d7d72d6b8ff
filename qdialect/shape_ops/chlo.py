"""The constant of CHLO: https://openxla.org/stablehlo/generated/chlo."""

from __future__ import annotations

from qdialect.shape_ops.interface import register_constant

register_constant("chlo.constant", "value")
