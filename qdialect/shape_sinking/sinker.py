"""The walk that moves the shape ops of a module below casts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.dialects.quant.casts import CastOp
from qdialect.dialects.quant.storage_ops import StorageBuilder
from qdialect.dialects.quant.types import QuantizedType, UniformQuantizedType
from qdialect.dialects.value_types import tensor_element_type
from qdialect.fold_report import FoldRecord, FoldReport, Outcome
from qdialect.ordering import operands_first
from qdialect.replacements import Replacements, erase_with_unused
from qdialect.resources import ResourceBlobs
from qdialect.shape_folding.constants import ConstantOperands, Constants
from qdialect.shape_op_interface import (
    Code,
    NotFoldable,
    ShapeOpModel,
    model_of,
    name_of,
)
from qdialect.shape_sinking.joining import join_casts
from qdialect.shape_sinking.links import Link
from qdialect.shape_sinking.moving_ops import MovingOp


def sink_shapes(module: ModuleOp, context: Context) -> FoldReport:
    """
    Move the shape ops of a module below the casts of the quant dialect that use them alone.

    What cannot be moved exactly stays, and is told in the report.
    """
    known = ConstantOperands(Constants(ResourceBlobs.of(context)))
    report = FoldReport(verb="sunk")
    joiner = _CastJoiner(known, report)
    joiner.join(module)
    _ShapeSinker(known, report, joiner.made).sink(module)
    return report


class _Rewriting:
    """What both walks share: ops are made where others are, which are erased in the end."""

    def __init__(self, known: ConstantOperands, report: FoldReport) -> None:
        self._known = known
        self._report = report
        self._replaced = Replacements()
        self._gone: dict[Operation, None] = {}

    def _cast_again(
        self, casts: Sequence[CastOp], point: InsertPoint, operand: SSAValue, result: Attribute
    ) -> CastOp:
        """The first of equal casts on another operand, at `point`, with the attributes of all."""
        first = casts[0]
        attributes = dict[str, Attribute]()
        for other in reversed(casts):
            attributes |= other.attributes
        new = type(first).create(
            operands=[operand],
            result_types=[result],
            properties=first.properties,
            attributes=attributes,
            location=first.location,
        )
        new.result.name_hint = first.result.name_hint
        Rewriter.insert_op(new, point)
        return new

    def _finish(self) -> None:
        """Replace what has been replaced, and erase what is gone, with what only it used."""
        self._replaced.apply()
        self._replaced = Replacements()
        erase_with_unused(self._gone)
        self._gone.clear()


class _CastJoiner(_Rewriting):
    """`f(cast(x), cast(y)) = cast(f(x, y))`, where casts are equal and used by nothing else."""

    def __init__(self, known: ConstantOperands, report: FoldReport) -> None:
        super().__init__(known, report)
        self.made: set[Operation] = set()
        """Ops that have been made, of which there is nothing to tell."""

    def join(self, module: ModuleOp) -> None:
        """Join the casts of a module."""
        joining = dict.fromkeys(op for op in module.walk() if _moves_several(op))
        for op in operands_first(joining):
            last: Operation | None = op
            while last is not None and self._is_behind_casts(last):
                # Those that are before the operands then may be equal too.
                last = self._join(last, op)
        self._finish()

    def _is_behind_casts(self, op: Operation) -> bool:
        finals = map(self._replaced.final, op.operands)
        return _moves_several(op) and any(isinstance(value.owner, CastOp) for value in finals)

    def _join(self, op: Operation, first: Operation) -> Operation | None:
        """
        Join the casts before `op`, if they can be. Returns the op that is then in its place.

        `first` is the op of the module that all this is done for.
        """
        try:
            moving = MovingOp.read(op, cast(ShapeOpModel, model_of(op)), self._known)
            finals = [self._replaced.final(operand) for operand in moving.operands]
            casts, form = join_casts(moving, finals)
        except NotFoldable:
            # An op that stays below its casts is where it should be.
            return None
        if not all(_is_used_by(operand, op) for operand in dict.fromkeys(moving.operands)):
            return None
        builder = StorageBuilder(InsertPoint.before(op), op.location)
        value = moving.make(form, builder, [each.input for each in casts])
        value.name_hint = op.results[0].name_hint
        joined = list(dict.fromkeys(casts))
        new = self._cast_again(joined, InsertPoint.before(op), value, op.results[0].type)
        self._replaced.add(op.results[0], new.result)
        self._gone[op] = None
        self._gone |= dict.fromkeys(joined)
        one = f"one '{new.name}' is behind it, and not {len(joined)} before it"
        self._report.records.append(
            FoldRecord(Outcome.JOINED, first, name_of(first), reason=one, stands=new.result)
        )
        op.operands = ()
        for each in joined:
            each.operands = ()
        made = cast(Operation, value.owner)
        self.made.add(made)
        return made


@dataclass(eq=False)
class _Run:
    """Shape ops one after another, each of which is used by nothing but the next."""

    base: SSAValue
    """What the first moves."""
    links: list[Link]
    moved: int = 0
    """How many of the first ones casts have gone above."""
    cast: CastOp | None = None
    """The last of these casts: the moved ones will stand for its result."""


class _ShapeSinker(_Rewriting):
    """
    `cast(f(x)) = f(cast(x))`, where nothing else uses `f(x)`.

    A cast goes above all shape ops before it in one step. These are made again in the end.
    """

    def __init__(
        self, known: ConstantOperands, report: FoldReport, untold: Collection[Operation]
    ) -> None:
        super().__init__(known, report)
        self._untold = untold
        """Ops that are not of the module as it was read."""
        self._runs: dict[SSAValue, _Run] = {}
        """The run that ends in each value."""
        self._unread: dict[Operation, NotFoldable] = {}
        """Why an op is in no run."""
        self._refusals: dict[Operation, NotFoldable] = {}
        """Why an op is not below the cast that uses it."""

    def sink(self, module: ModuleOp) -> None:
        """Sink the shape ops of a module."""
        self._merge_casts(module)
        ops = dict.fromkeys(
            op for op in module.walk() if isinstance(op, CastOp) or model_of(op) is not None
        )
        for op in operands_first(ops):
            if isinstance(op, CastOp):
                self._raise(op)
            else:
                self._visit(op)
        for run in self._runs.values():
            if run.cast is not None:
                self._make(run, run.cast)
        for op, refusal in self._refusals.items():
            if op in self._untold:
                continue
            self._report.records.append(
                FoldRecord(Outcome.REFUSED, op, name_of(op), code=refusal.code, reason=str(refusal))
            )
        self._finish()

    def _merge_casts(self, module: ModuleOp) -> None:
        """Have one cast for all users of a shape op, where they are equal casts."""
        for op in [op for op in module.walk() if model_of(op) is not None]:
            if len(op.results) != 1 or op.results[0].has_one_use():
                continue
            users = [use.operation for use in op.results[0].uses]
            casts = [user for user in users if isinstance(user, CastOp)]
            if not casts or len(casts) < len(users):
                continue
            first = casts[0]
            if all(
                type(each) is type(first)
                and each.result.type == first.result.type
                and each.parent is op.parent
                for each in casts
            ):
                point = InsertPoint.after(op)
                new = self._cast_again(casts, point, op.results[0], first.result.type)
                for each in casts:
                    self._replaced.add(each.result, new.result)
                    self._report.vanished[each.result] = new.result
                    self._gone[each] = None
        self._finish()

    def _visit(self, op: Operation) -> None:
        """Take a shape op as the last of a run."""
        try:
            moving = MovingOp.read(op, cast(ShapeOpModel, model_of(op)), self._known)
        except NotFoldable as error:
            self._unread[op] = error
            return
        if len(moving.operands) > 1:
            several = f"its {len(moving.operands)} operands would be cast one by one"
            self._unread[op] = NotFoldable(Code.CASTS, several)
            return
        operand = next(iter(moving.operands))
        run = self._take_run(operand, op) or _Run(operand, [])
        run.links.append(Link.of(moving, tensor_element_type(op.results[0].type)))
        self._runs[op.results[0]] = run

    def _take_run(self, value: SSAValue, user: Operation) -> _Run | None:
        """The run that ends in `value`, if nothing but `user` uses it, in the same block."""
        run = self._runs.get(value)
        if run is None or not value.has_one_use():
            return None
        if run.links[-1].moving.op.parent is not user.parent:
            return None
        return self._runs.pop(value)

    def _raise(self, op: CastOp) -> None:
        """Have a cast go above as many shape ops as possible."""
        if not _is_known(op):
            return
        run = self._take_run(op.input, op)
        if run is None:
            self._refuse(op)
            return
        at, element, below = len(run.links), tensor_element_type(op.result.type), list[Link]()
        while at:
            last = run.links[at - 1]
            try:
                link = last.below(op, element)
            except NotFoldable as error:
                self._refusals[last.moving.op] = error
                break
            below.append(link)
            element = link.before
            at -= 1
        if not below:
            self._runs[op.input] = run
            return
        base = self._split(run, at, op)
        shape = cast("TensorType[Attribute]", base.type).get_shape()
        new = self._cast_again([op], InsertPoint.before(op), base, TensorType(element, shape))
        self._gone |= dict.fromkeys([op, *(link.moving.op for link in below)])
        self._runs[op.result] = _Run(new.result, below[::-1], len(below), op)

    def _split(self, run: _Run, at: int, op: CastOp) -> SSAValue:
        """What the ops of a run from `at` on move, which `op` goes above. Those before stay."""
        if at == 0:
            return run.base
        if at < run.moved:
            return self._make_links(run.links[:at], run.base, op)
        if run.cast is not None:
            kept = _Run(run.base, run.links[: run.moved], run.moved, run.cast)
            self._runs[run.cast.result] = kept
        return next(iter(run.links[at].moving.operands))

    def _refuse(self, op: CastOp) -> None:
        """Tell why the shape op before a cast does not sink, if there is one."""
        before = op.input.owner
        if not isinstance(before, Operation):
            return
        if before in self._unread:
            self._refusals[before] = self._unread[before]
        elif op.input in self._runs and not isinstance(before, CastOp):
            self._refusals[before] = NotFoldable(
                Code.USES, "its result is used by more than equal casts in its block"
            )

    def _make(self, run: _Run, last: CastOp) -> None:
        """Make the shape ops again that casts have gone above, `last` last."""
        value = self._make_links(run.links[: run.moved], run.base, last)
        self._replaced.add(last.result, value)
        self._report.vanished[last.result] = value
        for link in run.links[: run.moved]:
            op = link.moving.op
            self._refusals.pop(op, None)
            reason = f"it is now below '{last.name}'"
            if op not in self._untold:
                record = FoldRecord(Outcome.SUNK, op, name_of(op), reason=reason)
                self._report.records.append(record)

    def _make_links(self, links: Sequence[Link], base: SSAValue, at: Operation) -> SSAValue:
        """Make shape ops again, before `at`."""
        value = base
        for link in links:
            op = link.moving.op
            builder = StorageBuilder(InsertPoint.before(at), op.location)
            value = link.moving.make(link.form, builder, [value])
            value.name_hint = value.name_hint or op.results[0].name_hint
        return value


def _moves_several(op: Operation) -> bool:
    """Whether `op` may be a shape op that moves several operands."""
    return len(op.operands) > 1 and model_of(op) is not None


def _is_used_by(value: SSAValue, op: Operation) -> bool:
    """Whether nothing but `op` uses `value`."""
    return all(use.operation is op for use in value.uses)


def _is_known(op: CastOp) -> bool:
    """Whether a cast is of ranked tensors, and says how it reads or writes elements."""
    for type in (op.input.type, op.result.type):
        if not isinstance(type, TensorType):
            return False
        tensor = cast("TensorType[Attribute]", type)
        element = tensor.element_type
        is_opaque = isinstance(element, QuantizedType) and not isinstance(
            element, UniformQuantizedType
        )
        if is_opaque or not isinstance(tensor.encoding, NoneAttr):
            return False
    return True
