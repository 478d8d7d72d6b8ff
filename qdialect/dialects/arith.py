"""The ops of arith: https://mlir.llvm.org/docs/Dialects/ArithOps/."""

from __future__ import annotations

from functools import partial

from qdialect.ops.model import Bits, OnElements, OpModel, OpModels
from qdialect.ops.rules import conversion, own, shared

_exact = partial(OpModel, bits=Bits.EXACT)
_undefined = partial(OpModel, bits=Bits.UNDEFINED)

MODELS = OpModels(
    "arith",
    {
        "addi addui_extended andi cmpi constant extsi extui index_cast index_castui": _exact(),
        "maxsi maxui minsi minui muli mulsi_extended mului_extended ori subi trunci xori": _exact(),
        "ceildivsi ceildivui divsi divui floordivsi remsi remui shli shrsi shrui": _undefined(),
        "fptosi fptoui": _undefined(rule=own()),
        "addf cmpf divf maximumf maxnumf minimumf minnumf mulf negf": _exact(rule=own()),
        "sitofp subf uitofp": _exact(rule=own()),
        "remf": _exact(rule=own(), run=OnElements("numpy:fmod", arity=2)),
        "extf truncf": _exact(rule=conversion),
        "select": _exact(rule=shared(1, 2, keeps_places=True)),
        "bitcast": _exact(stays_float="it reads bits, not numbers"),
        "scaling_extf scaling_truncf": OpModel(stays_float="it has scales of its own"),
    },
)
