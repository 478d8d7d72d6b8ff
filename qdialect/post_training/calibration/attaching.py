"""Recorded ranges as ops: `quant.stats` after each value that has a record in a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from qdialect.algebra.lazy_numpy import np
from qdialect.dialects.quant import StatisticsOp
from qdialect.folding.report import FoldRecord, FoldReport, Outcome
from qdialect.ir.elements import floats_attribute
from qdialect.ir.replacements import insert_after
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.value_types import shape_of
from qdialect.post_training.calibration.fingerprints import fingerprint_of
from qdialect.post_training.calibration.keys import keys_of
from qdialect.quantization.profile import Profile
from qdialect.quantization.ranges import Range, Reduction, Statistics
from qdialect.shape_ops.interface import Code, name_of
from qdialect.shape_ops.statistics import is_statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attach_ranges(module: ModuleOp, profile: Profile, reduction: Reduction) -> FoldReport:
    """
    Insert `quant.stats` after each value that has a record in `profile`, in place of any there.

    A value that only holds the elements of another one gets none. The report lists values without a
    record, and records without a value.
    """
    report = FoldReport(verb="attached")
    keys = keys_of(module)
    names = {key: [key] for key in keys.roots}
    for name, key in keys.aliases.items():
        names[key].append(name)
    found = set[str]()
    for key, values in keys.roots.items():
        known = (name for name in names[key] if profile.statistics(name) is not None)
        name = next(known, key)
        statistics = profile.statistics(name)
        found.add(profile.aliases.get(name, name))
        for value in values:
            if isinstance(value.owner, Operation) and value.owner.parent is None:
                # It was the result of `quant.stats`, which has been replaced.
                continue
            if statistics is None:
                reason = f"there is no record of '{key}'"
                _refuse(report, _op_of(value), Code.NO_RECORD, reason)
            elif (reason := _misfit(statistics, value)) is not None:
                _refuse(report, _op_of(value), Code.NO_RECORD, f"the record of '{key}' {reason}")
            else:
                _attach(report, value, key, statistics, reduction(statistics))
    for key in sorted(profile.values.keys() - found):
        _refuse(report, module, Code.NO_VALUE, f"no value has the key '{key}', which has a record")
    return report


def differences_of(module: ModuleOp, context: Context, profile: Profile) -> list[str]:
    """The differences of a module from the one that `profile` was recorded on, in words."""
    return profile.fingerprint.differences(fingerprint_of(module, ResourceBlobs.of(context)))


def _refuse(report: FoldReport, op: Operation, code: Code, reason: str) -> None:
    record = FoldRecord(Outcome.REFUSED, op, name_of(op), code=code, reason=reason)
    report.records.append(record)


def _op_of(value: SSAValue) -> Operation:
    """The op that a value is a result or a block argument of."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        assert parent is not None
        return parent
    return owner


def _misfit(statistics: Statistics, value: SSAValue) -> str | None:
    """Why ranges do not match a value; None if they do."""
    axes, shape = statistics.axes, shape_of(value.type)
    if not axes:
        return None
    if len(axes) > 1:
        return f"has ranges of the axes {list(axes)}, but 'quant.stats' supports at most one axis"
    axis = next(iter(axes))
    count = statistics.minima.shape[1]
    if shape is None or axis >= len(shape) or shape[axis] not in (-1, count):
        return f"has {count} ranges of axis {axis}, which '{value.type}' does not have"
    return None


def _attach(
    report: FoldReport, value: SSAValue, key: str, statistics: Statistics, found: Range
) -> None:
    ends: NDArray[np.float64] = np.stack([found.minimum, found.maximum], -1).astype(np.float64)
    whole = np.array([ends[..., 0].min(), ends[..., 1].max()])
    axis = statistics.axes[0] if statistics.axes else None
    by_axis = None if axis is None else floats_attribute(ends)
    before = {use.operation for use in value.uses if is_statistics(use.operation)}
    new = StatisticsOp(
        value, floats_attribute(whole), by_axis, axis, key=key, count=len(statistics.records)
    )
    for old in before:
        # The new op replaces those of an earlier profile.
        old.results[0].replace_all_uses_with(value)
        Rewriter.erase_op(old)
    value.replace_uses_with_if(new.result, lambda use: use.operation is not new)
    insert_after(new, value)
    report.records.append(
        FoldRecord(
            Outcome.ATTACHED,
            _op_of(value),
            name_of(_op_of(value)),
            reason=f"'{key}' is from {whole[0]:.9g} to {whole[1]:.9g}",
        )
    )
