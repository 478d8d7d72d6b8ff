"""Modules that are calibrated, equalized, and run: what they return, and the ranges they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_networks import powers
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.check.interpreters import TypedArray, find_function, run_function
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.resources import ResourceBlobs
from qdialect.ops.along_axis import is_statistics, statistics_of
from qdialect.ops.interface import name_of
from qdialect.opt.registry import ToolContext
from qdialect.ptq.calibration.attaching import attach_ranges, fingerprint_of
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.calibration.recorded_functions import recorded_function, returning
from qdialect.ptq.equalization.equalizing import EqualizationReport, channel_axes, equalize_inputs
from qdialect.ptq.passes.weights import EqualizeInputsPass
from qdialect.ptq.schemes.profile import Profile
from qdialect.ptq.schemes.ranges import WHOLE
from qdialect.ptq.tools.recording import prepare, run_of
from qdialect.text import parse_module, write_module

Array = NDArray[Any]


@dataclass
class Model:
    """A module with one function, and arguments for it."""

    text: str
    inputs: Sequence[Array] = ()
    context: ToolContext = field(default_factory=lambda: ToolContext(allow_unregistered=True))
    module: ModuleOp = field(init=False)
    outcomes: PassReport = field(init=False)
    report: EqualizationReport = field(init=False)

    def __post_init__(self) -> None:
        self.module = parse_module(self.context, self.text)
        self.module.verify()
        if not self.inputs:
            random = np.random.default_rng(0)
            types: Any = self.function.function_type.inputs
            self.inputs = [self._numbers(random, type.get_shape()) for type in types]

    @staticmethod
    def _numbers(random: np.random.Generator, shape: Sequence[int]) -> Array:
        """Numbers whose spread differs along the axes."""
        shape = [3 if length < 0 else length for length in shape]
        spread = powers(random, shape)
        return (random.normal(size=shape) * spread).astype("f4")

    @property
    def function(self) -> FuncOp:
        return next(op for op in self.module.ops if isinstance(op, FuncOp))

    @property
    def name(self) -> str:
        return self.function.sym_name.data

    @property
    def printed(self) -> str:
        stream = StringIO()
        write_module(self.context, self.module, stream)
        return stream.getvalue()

    @property
    def ops(self) -> list[Operation]:
        return [op for op in self.module.walk() if op is not self.module]

    def named(self, name: str) -> list[Operation]:
        """The ops of that name."""
        return [op for op in self.ops if name_of(op) == name]

    def run(self, *, with_iree: bool = False) -> list[Array]:
        """What the function returns: of the interpreter, or of IREE."""
        return self._run(self.module, self.name, with_iree=with_iree)

    def _run(self, module: ModuleOp, name: str, *, with_iree: bool = False) -> list[Array]:
        types = find_function(module, name).function_type.inputs.data
        pairs = zip(self.inputs, types, strict=True)
        given = [TypedArray.of(array.view("u4"), type) for array, type in pairs]
        if with_iree:
            function = find_function(module, name)
            (end,) = (op for op in function.body.blocks[0].ops if isinstance(op, ReturnOp))
            run = run_of(module, function, self.context, engine="iree")
            prepared = prepare(run, end.operands, engine="iree")
            values = dict[int, TypedArray]()
            prepared.start().run(given, values.__setitem__)
            results = [values[at] for at in range(len(end.operands))]
        else:
            results = run_function(module, name, given, self.context)
        return [each.elements.view("f4") for each in results]

    def calibrate(self, *, channels: bool = True) -> Model:
        """Attach the ranges of one record."""
        axes: Mapping[SSAValue, int] = {}
        if channels:
            axes = channel_axes(self.module, self.context)
        function = recorded_function(self.module, self.name, keys_of(self.module), axes=axes)
        types = self.function.function_type.inputs.data
        pairs = zip(self.inputs, types, strict=True)
        given = [TypedArray.of(array.view("u4"), type) for array, type in pairs]
        run = run_of(self.module, function.function, self.context, engine="reference")
        prepared = prepare(run, function.values, engine="reference")
        seen = function.recorded.begin(0)
        prepared.start().run(given, partial(function.recorded.add, seen))
        fingerprint = fingerprint_of(self.module, ResourceBlobs.of(self.context))
        profile = Profile(fingerprint, function.recorded.statistics([seen]))
        attach_ranges(self.module, self.context, profile, WHOLE)
        return self

    def equalize(self, **options: Any) -> Model:
        """Equalize the module, and read it again from its text."""
        options_of = EqualizeInputsPass(**options)
        found = equalize_inputs(
            self.module,
            self.context,
            options_of.policy(),
            options_of.resolution(),
            options_of.choose,
        )
        self.outcomes, self.report = found
        self.module.verify()
        self.module = parse_module(self.context, self.printed)
        self.module.verify()
        return self

    def refusals(self) -> list[tuple[str, str]]:
        """The codes and reasons of what could not be done."""
        found = [of for of in self.outcomes.records if of.outcome is Outcome.REFUSED]
        return [(str(of.code), of.reason) for of in found]

    def scales(self) -> dict[str, list[float]]:
        """Those of each layer that is changed, by key."""
        return {layer.key: [*layer.scales] for layer in self.report.layers}

    def check_ranges(self) -> int:
        """Assert that `quant.stats` has what is measured anew; returns how many there are."""
        stats = [op for op in self.ops if is_statistics(op)]
        operands = [op.operands[0] for op in stats]
        module, function, _ = returning(self.module, self.function, operands)
        for op, array in zip(stats, self._run(module, function.sym_name.data), strict=True):
            said = statistics_of(op, array.shape)
            near = 2e-4 * np.abs(array).max() + 1e-6
            assert np.allclose(said.layer, [array.min(), array.max()], rtol=1e-3, atol=near)
            if said.axis is not None:
                others = tuple(axis for axis in range(array.ndim) if axis != said.axis)
                rows = np.stack([array.min(axis=others), array.max(axis=others)], -1)
                assert said.by_axis is not None
                near = 1e-3 * np.abs(rows).max(axis=1, keepdims=True) + 1e-5
                assert (np.abs(said.by_axis - rows) <= near).all()
        return len(stats)


def are_close(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether results are the same up to rounding."""
    return len(one) == len(other) and all(
        np.allclose(a, b, rtol=2e-4, atol=2e-4 * np.abs(a).max() + 1e-6)
        for a, b in zip(one, other, strict=True)
    )
