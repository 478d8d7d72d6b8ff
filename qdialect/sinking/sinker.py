"""
Moving shape ops below casts, and replacing the casts of all operands of a concat by one.

A cast is hoisted above a run of shape ops with one operand each; each of them is rebuilt for the
element type before the cast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qdialect.algebra.movement import DYNAMIC, Movement, Shape, pulled_back
from qdialect.algebra.padding import Pad, StorageRange, ZeroPoints
from qdialect.dialects.quant.casts import CastOp, RequantizeOp, StorageCastOp
from qdialect.dialects.quant.slots import Granularity
from qdialect.dialects.quant.storage import QuantizedType
from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.folding.layers import refusing
from qdialect.folding.policy import FoldPolicy, spell
from qdialect.folding.report import Outcome, PassRecord, PassReport
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import Replacements, operands_first
from qdialect.ir.value_types import tensor_element_type
from qdialect.lowering.storage_ops import StorageBuilder
from qdialect.ops.interface import Refusal, RefusalCode, model_of, models_of, name_of
from qdialect.ops.reading import ConstantOperands, Constants
from qdialect.ops.unused_ops import erase_with_unused
from qdialect.sinking.moving_ops import Form, MovingOp, Scalar
from qdialect.support.memory import BoundedCache


@dataclass(frozen=True, eq=False)
class Link:
    """A shape op, and its element types after casts have been hoisted above it."""

    moving: MovingOp

    before: Attribute
    """The element type of the operand after hoisting."""

    form: Form
    """How to rebuild the op on `before`. Until a cast is hoisted, only the last type is valid."""

    @classmethod
    def of(cls, moving: MovingOp, result: Attribute) -> Link:
        """An op before any cast is hoisted above it, with a result of element type `result`."""
        elements = (result,) * len(moving.movements)
        return cls(moving, moving.element, Form(elements, moving.padding))

    def below(self, cast: CastOp, element: Attribute) -> Link:
        """
        This op below `cast`, with a result of element type `element`.

        Raises Refusal if no such op exists, or if elements would change.
        """
        moving, padding = self.moving, None
        if isinstance(element, UniformQuantizedType):
            shapes = (*moving.operand_shapes, *moving.shapes)
            before, *elements = _types_before(moving.movements, shapes, element)
            self._check_padding(cast, elements)
        else:
            before, elements = element, [element] * len(moving.movements)
            padding = self._padding_below(cast, element)
        return Link(moving, before, moving.form([before], elements, padding))

    def _zero_points(self, elements: Sequence[Attribute]) -> Iterator[ZeroPoints]:
        """The padded regions, given the quantized type after each movement. Raises Refusal."""
        for movement, element, shape in zip(
            self.moving.movements, elements, self.moving.shapes, strict=True
        ):
            if isinstance(movement, Pad):
                assert isinstance(element, UniformQuantizedType)
                if DYNAMIC in shape:
                    raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
                bounds = element.storage_type_min, element.storage_type_max
                range = StorageRange(element.storage_format, *bounds)
                yield from ZeroPoints.of(movement, element.parameters_on(shape), range)

    def _check_padding(self, cast: CastOp, elements: Sequence[Attribute]) -> None:
        """Raise Refusal unless `cast` maps the padding to the zero points."""
        padding = self.form.padding
        for new in self._zero_points(elements):
            if isinstance(cast, StorageCastOp) and isinstance(padding, IntegerAttr):
                is_exact = new.are_bits(padding.value.data)
            else:
                # Only 0.0 is quantized to the same integer under all rounding modes.
                is_zero = padding is not None and padding.value.data == 0
                if isinstance(cast, RequantizeOp):
                    above = self._zero_points(self.form.elements)
                    is_zero = all(old.are_read_as_zero() for old in above)
                is_exact = is_zero and new.are_quantized_zeros()
            if not is_exact:
                raise Refusal(
                    RefusalCode.PADDING, f"'{cast.name}' does not map its padding to zero points"
                )

    def _padding_below(self, cast: CastOp, element: Attribute) -> Scalar | None:
        """The single element to which `cast` maps all zero points. Raises Refusal."""
        if not any(isinstance(movement, Pad) for movement in self.moving.movements):
            return None
        regions = self._zero_points(self.form.elements)
        if isinstance(cast, StorageCastOp):
            bits = {new.bits() for new in regions} or {0}
            if len(bits) == 1 and (single := bits.pop()) is not None:
                return IntegerAttr(single, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        elif all(new.are_read_as_zero() for new in regions):
            return FloatAttr(0.0, element)  # pyright: ignore[reportArgumentType, reportCallIssue]
        raise Refusal(
            RefusalCode.PADDING, f"'{cast.name}' does not map its padding to a single element"
        )


_KNOWN_TYPES = BoundedCache[
    tuple[tuple[Movement, ...], tuple[Shape, ...], UniformQuantizedType], tuple[Attribute, ...]
]()


def _types_before(
    movements: tuple[Movement, ...], shapes: tuple[Shape, ...], element: UniformQuantizedType
) -> tuple[Attribute, ...]:
    """
    The element types before the first and after each movement, given that the last is `element`.

    Raises Refusal if no such types exist, or if they have too many scales.
    """
    if element.granularity is Granularity.PER_TENSOR:
        return (element,) * (len(movements) + 1)
    key = movements, shapes, element
    if (known := _KNOWN_TYPES.get(key)) is not None:
        return known
    if any(DYNAMIC in shape for shape in shapes):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    parameters = element.parameters_on(shapes[-1])
    types, slots = [element], element.scales.size
    for movement, shape in zip(reversed(movements), reversed(shapes[:-1]), strict=True):
        with refusing:
            before = pulled_back(movement, parameters, shape)
            if before is None:
                raise Refusal(
                    RefusalCode.NOT_INVERTIBLE,
                    "no operand type gives its result the scales that the cast needs",
                )
            type = spell(element, before, Granularity.SUB_CHANNEL)
        FoldPolicy().check_parameters(type, shape, slots)
        types.append(type)
        parameters = before
    weight = sum(1 + type.scales.size for type in types)
    return _KNOWN_TYPES.add(key, tuple(reversed(types)), weight)


def join_casts(moving: MovingOp, operands: Sequence[SSAValue]) -> tuple[list[CastOp], Form]:
    """
    The equal casts that define the operands of a shape op, and the op's form above a single cast.

    Raises Refusal if the operands are not defined by equal casts, or the op has no such form.
    """
    owners = [operand.owner for operand in operands]
    casts = [owner for owner in owners if isinstance(owner, CastOp)]
    if len(operands) < 2 or len(casts) < len(operands):
        raise Refusal(RefusalCode.CASTS, "not all operands are results of casts")
    first = casts[0]
    if any(
        type(cast_op) is not type(first) or cast_op.properties != first.properties
        for cast_op in casts
    ):
        raise Refusal(RefusalCode.CASTS, "its operands are results of different casts")
    if any(cast_op.parent is not moving.op.parent for cast_op in casts):
        raise Refusal(RefusalCode.CASTS, "an operand is cast in another block")
    elements = [tensor_element_type(cast_op.input.type) for cast_op in casts]
    joined = _joined(moving, elements)
    return casts, moving.form(elements, [joined])


def _joined(moving: MovingOp, elements: Sequence[Attribute]) -> Attribute:
    """The element type of the result for operands with these element types. Raises Refusal."""
    if len(moving.movements) > 1:
        raise Refusal(RefusalCode.UNKNOWN_OP, "it does more than join its operands")
    movement, first = next(iter(moving.movements)), elements[0]
    types = [element for element in elements if isinstance(element, UniformQuantizedType)]
    is_one = len(set(elements)) == 1
    if not types and is_one:
        return first
    if len(types) < len(elements) or not all(map(types[0].has_same_values_as, types)):
        raise Refusal(
            RefusalCode.MIXED_CONSTANTS, "its operands differ in storage or expressed type"
        )
    if is_one and types[0].granularity is Granularity.PER_TENSOR:
        return first
    shapes = moving.operand_shapes
    if any(DYNAMIC in shape for shape in shapes):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "a length is only known at run time")
    parameters = [type.parameters_on(shape) for type, shape in zip(types, shapes, strict=True)]
    with refusing:
        joined = spell(types[0], movement(*parameters), Granularity.SUB_CHANNEL)
    slots = sum(type.scales.size for type in types)
    FoldPolicy().check_parameters(joined, moving.shapes[-1], slots)
    return joined


def sink_shapes(module: ModuleOp, context: Context) -> PassReport:
    """
    Move the shape ops of a module below the casts of the quant dialect that are their only users.

    Ops that cannot be moved exactly are kept, and reported with the reason.
    """
    sinking = _Sinking(
        ConstantOperands(Constants(ResourceBlobs.of(context))),
        frozenset(op for op in module.walk() if _is_cast_or_shape_op(op)),
    )
    with models_of(context):
        while True:
            _CastJoiner(sinking).join(module)
            refused = _ShapeSinker(sinking).sink(module)
            if not sinking.has_freed():
                # Refusals of earlier rounds may no longer hold.
                sinking.report.records.extend(refused)
                sinking.report.forget_erased()
                return sinking.report


@dataclass(frozen=True, eq=False)
class _Sinking:
    """The state of one run of the pass, which all its walks share."""

    known: ConstantOperands
    original: Collection[Operation]
    """The casts and shape ops of the module before the pass: only these are reported."""
    report: PassReport = field(default_factory=lambda: PassReport(verb="sunk"))
    blocked: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Values above which no cast could be hoisted because of their users."""

    def has_freed(self) -> bool:
        """
        Clear the blocked values, and return whether a cast may now be hoisted above one of them.

        Users may have changed: a rebuilt shape op no longer uses, for example, the destination
        tensor of the original, and its operand has been replaced by a cast of it.
        """
        blocked = list(self.blocked)
        self.blocked.clear()
        return any(_is_free(value) for value in blocked)

    def tell(self, record: PassRecord) -> None:
        """Add a record to the report, if it is about an original op."""
        if record.op in self.original:
            self.report.records.append(record)

    def tell_vanished(self, value: SSAValue, by: SSAValue) -> None:
        """Report that `by` replaces `value`, if an original op defines `value`."""
        if value.owner in self.original:
            self.report.vanished[value] = by

    def replace(self, replaced: Replacements) -> None:
        """Replace values in the module and in the report."""
        replaced.apply()
        final = replaced.final
        records, vanished = self.report.records, self.report.vanished
        for at, record in enumerate(records):
            if record.stands is not None:
                records[at] = record._replace(stands=final(record.stands))
        vanished.update({value: by if by is None else final(by) for value, by in vanished.items()})
        blocked = dict.fromkeys(map(final, self.blocked))
        self.blocked.clear()
        self.blocked.update(blocked)


class _Rewriting:
    """
    Base class of both walks. New ops are inserted immediately, replaced ops erased at the end.
    """

    def __init__(self, sinking: _Sinking) -> None:
        self._sinking = sinking
        self._replaced = Replacements()
        self._gone: dict[Operation, None] = {}

    def _cast_again(
        self, casts: Sequence[CastOp], point: InsertPoint, operand: SSAValue, result: Attribute
    ) -> CastOp:
        """Insert a cast of `operand` like `casts`, which are equal, with all their attributes."""
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
        """Replace all uses, and erase replaced ops and the ops that only they used."""
        self._sinking.replace(self._replaced)
        erase_with_unused(self._gone)


class _CastJoiner(_Rewriting):
    """`f(cast(x), cast(y)) = cast(f(x, y))`, if the casts are equal and have no other uses."""

    def join(self, module: ModuleOp) -> None:
        """Join the casts of a module."""
        joining = dict.fromkeys(op for op in module.walk() if _moves_several(op))
        for op in operands_first(joining):
            last: Operation | None = op
            while last is not None and self._is_behind_casts(last):
                # The operands of the joined casts may be equal casts too.
                last = self._join(last, op)
        self._finish()

    def _is_behind_casts(self, op: Operation) -> bool:
        finals = map(self._replaced.final, op.operands)
        return _moves_several(op) and any(isinstance(value.owner, CastOp) for value in finals)

    def _join(self, op: Operation, first: Operation) -> Operation | None:
        """
        Join the casts before `op`, and return the op that replaces `op`; None if impossible.

        `first` is the original op that is reported: `op` may be a rebuilt one.
        """
        try:
            moving = MovingOp.read(op, self._sinking.known)
            finals = [self._replaced.final(operand) for operand in moving.operands]
            casts, form = join_casts(moving, finals)
        except Refusal:
            # No record: joining is optional.
            return None
        shared = [value for value in dict.fromkeys(moving.operands) if not _is_used_by(value, op)]
        if shared:
            self._sinking.blocked.update(dict.fromkeys(shared))
            return None
        builder = StorageBuilder(InsertPoint.before(op), op.location)
        value = moving.make(form, builder, [cast_op.input for cast_op in casts])
        value.name_hint = op.results[0].name_hint
        joined = list(dict.fromkeys(casts))
        new = self._cast_again(joined, InsertPoint.before(op), value, op.results[0].type)
        self._replaced.add(op.results[0], new.result)
        self._gone[op] = None
        self._gone |= dict.fromkeys(joined)
        one = f"one '{new.name}' is behind it, and not {len(joined)} before it"
        self._sinking.tell(
            PassRecord(Outcome.JOINED, first, name_of(first), reason=one, stands=new.result)
        )
        op.operands = ()
        for cast_op in joined:
            cast_op.operands = ()
        return cast(Operation, value.owner)


@dataclass(eq=False)
class _Run:
    """A sequence of shape ops, each of which has the next one as its only user."""

    base: SSAValue
    """The operand of the first op."""
    links: list[Link]
    moved: int = 0
    """The number of ops, from the first, that have sunk below casts."""
    cast: CastOp | None = None
    """The last of these casts, whose result the sunk ops will replace."""


class _ShapeSinker(_Rewriting):
    """
    `cast(f(x)) = f(cast(x))`, if `f(x)` has no other uses.

    A cast is hoisted above a whole run of shape ops in one step. The ops are rebuilt at the end.
    """

    def __init__(self, sinking: _Sinking) -> None:
        super().__init__(sinking)
        self._merged: dict[SSAValue, tuple[SSAValue, ...]] = {}
        """For the result of each merged cast, the results of the equal casts that it replaces."""
        self._runs: dict[SSAValue, _Run] = {}
        """The runs, keyed by the results of their last ops."""
        self._unread: dict[Operation, Refusal] = {}
        """The reason why an op is not in a run."""
        self._refusals: dict[Operation, Refusal] = {}
        """The reason why an op is not sunk below the cast that uses it."""

    def sink(self, module: ModuleOp) -> list[PassRecord]:
        """Sink the shape ops of a module, and return the records of those that were refused."""
        for op in operands_first(dict.fromkeys(filter(_is_cast_or_shape_op, module.walk()))):
            if not isinstance(op, CastOp):
                self._visit(op)
            elif op not in self._gone:
                self._raise(op)
        for run in self._runs.values():
            if run.cast is not None:
                self._make(run, run.cast)
        self._finish()
        return [
            PassRecord(Outcome.REFUSED, op, name_of(op), code=refusal.code, reason=str(refusal))
            for op, refusal in self._refusals.items()
            if op in self._sinking.original
        ]

    def _users(self, value: SSAValue) -> Iterator[Operation]:
        """The ops that use `value` or a value that it replaces."""
        for result in self._merged.get(value, (value,)):
            for use in result.uses:
                yield use.operation

    def _has_one_use(self, value: SSAValue) -> bool:
        users = self._users(value)
        return next(users, None) is not None and next(users, None) is None

    def _merge(self, casts: Sequence[CastOp], operand: SSAValue) -> CastOp:
        """Merge equal casts of `operand` into one."""
        if len(casts) == 1:
            return casts[0]
        point = InsertPoint.after(cast(Operation, operand.owner))
        new = self._cast_again(casts, point, operand, casts[0].result.type)
        self._merged[new.result] = tuple(cast_op.result for cast_op in casts)
        for cast_op in casts:
            self._replaced.add(cast_op.result, new.result)
            self._sinking.tell_vanished(cast_op.result, new.result)
            self._gone[cast_op] = None
        return new

    def _visit(self, op: Operation) -> None:
        """Append a shape op to the run of its operand, or start a new run."""
        try:
            moving = MovingOp.read(op, self._sinking.known)
        except Refusal as error:
            self._unread[op] = error
            return
        if len(moving.operands) > 1:
            several = f"its {len(moving.operands)} operands would be cast one by one"
            self._unread[op] = Refusal(RefusalCode.CASTS, several)
            return
        operand = self._replaced.final(next(iter(moving.operands)))
        run = self._take_run(operand, op, is_alone=self._has_one_use(operand))
        run = run or _Run(operand, [])
        run.links.append(Link.of(moving, tensor_element_type(op.results[0].type)))
        self._runs[op.results[0]] = run

    def _take_run(self, value: SSAValue, user: Operation, *, is_alone: bool) -> _Run | None:
        """Take the run that ends in `value`, if `user` is its only user, in the same block."""
        run = self._runs.get(value)
        if run is None:
            return None
        if not is_alone:
            self._sinking.blocked[value] = None
            return None
        if run.links[-1].moving.op.parent is not user.parent:
            return None
        return self._runs.pop(value)

    def _raise(self, op: CastOp) -> None:
        """Hoist a cast, and equal casts with it, above as many shape ops as possible."""
        if not _is_known(op):
            return
        value = self._replaced.final(op.input)
        is_open = value in self._runs and value not in self._sinking.blocked
        casts = _equal_casts(self._users(value)) if is_open else []
        run = self._take_run(value, op, is_alone=bool(casts))
        if run is None:
            self._refuse(op)
            return
        at, element, below = len(run.links), tensor_element_type(op.result.type), list[Link]()
        while at:
            last = run.links[at - 1]
            try:
                link = last.below(op, element)
            except Refusal as error:
                self._refusals[last.moving.op] = error
                break
            below.append(link)
            element = link.before
            at -= 1
        if not below:
            self._runs[value] = run
            return
        op = self._merge(casts, value)
        base = self._split(run, at, op)
        shape = cast("TensorType[Attribute]", base.type).get_shape()
        new = self._cast_again([op], InsertPoint.before(op), base, TensorType(element, shape))
        self._gone |= dict.fromkeys([op, *(link.moving.op for link in below)])
        self._runs[op.result] = _Run(new.result, below[::-1], len(below), op)

    def _split(self, run: _Run, at: int, op: CastOp) -> SSAValue:
        """Split a run before the op `at`, above which `op` is hoisted; return its operand."""
        if at == 0:
            return run.base
        if run.cast is not None and at < run.moved:
            return self._make_links(run.links[:at], run.base, op, run.cast)
        if run.cast is not None:
            kept = _Run(run.base, run.links[: run.moved], run.moved, run.cast)
            self._runs[run.cast.result] = kept
        return self._replaced.final(run.links[at].moving.operands[0])

    def _refuse(self, op: CastOp) -> None:
        """Record the reason why the shape op above a cast is not sunk."""
        value = self._replaced.final(op.input)
        before = value.owner
        if not isinstance(before, Operation):
            return
        if before in self._unread:
            self._refusals[before] = self._unread[before]
        elif value in self._runs and not isinstance(before, CastOp):
            self._refusals[before] = Refusal(
                RefusalCode.USES, "its result is used by more than equal casts in its block"
            )

    def _make(self, run: _Run, last: CastOp) -> None:
        """Rebuild the sunk shape ops of a run in place of `last`, the last cast above them."""
        value = self._make_links(run.links[: run.moved], run.base, last, last)
        self._replaced.add(last.result, value)
        self._sinking.tell_vanished(last.result, value)

    def _make_links(
        self, links: Sequence[Link], base: SSAValue, at: Operation, below: CastOp
    ) -> SSAValue:
        """Rebuild shape ops, which are now below a cast, before `at`. Returns the result."""
        value = base
        for link in links:
            op = link.moving.op
            builder = StorageBuilder(InsertPoint.before(at), op.location)
            value = link.moving.make(link.form, builder, [value])
            value.name_hint = value.name_hint or op.results[0].name_hint
            self._refusals.pop(op, None)
            reason = f"it is now below '{below.name}'"
            self._sinking.tell(PassRecord(Outcome.SUNK, op, name_of(op), reason=reason))
        return value


def _is_cast_or_shape_op(op: Operation) -> bool:
    return isinstance(op, CastOp) or model_of(op) is not None


def _moves_several(op: Operation) -> bool:
    """Whether `op` may be a shape op with several moved operands."""
    return len(op.operands) > 1 and model_of(op) is not None


def _equal_casts(users: Iterable[Operation]) -> list[CastOp]:
    """`users` if all of them are equal casts in one block, otherwise an empty list."""
    casts = list[CastOp]()
    for user in users:
        if not isinstance(user, CastOp) or not _is_equal(user, (casts or [user])[0]):
            return []
        casts.append(user)
    return casts


def _is_equal(one: CastOp, other: CastOp) -> bool:
    return one is other or (
        type(one) is type(other)
        and one.result.type == other.result.type
        and one.properties == other.properties
        and one.parent is other.parent
    )


def _is_free(value: SSAValue) -> bool:
    """Whether the users of `value` allow hoisting a cast above it: a single op, or equal casts."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return len(users) == 1 or bool(_equal_casts(users))


def _is_used_by(value: SSAValue, op: Operation) -> bool:
    """Whether `op` is the only user of `value`."""
    return all(use.operation is op for use in value.uses)


def _is_known(op: CastOp) -> bool:
    """Whether a cast is of ranked tensors without encodings, whose quantized types are uniform."""
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
