"""Reads constants of any dialect, constant operands, and what is computed or moved from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.movement import Movement, MovementError
from qdialect.algebra.parameters import StorageFormat
from qdialect.algebra.views import Elements, Unread, as_view
from qdialect.ir.elements import (
    DenseElementsAttr,
    UnsupportedElementTypeError,
    element_dtype,
    elements_of,
    has_signedness,
)
from qdialect.ir.errors import message_of
from qdialect.ir.resources import ResourceBlobs
from qdialect.ir.rewriting import dependencies_first
from qdialect.ir.value_types import element_type_or_self, tensor_element_type, tensor_parts
from qdialect.ops.fields import IntegerFunction, Integers, Movements, Operands, ShapeOpModel
from qdialect.ops.interface import (
    Refusal,
    RefusalCode,
    as_integers,
    check_not_kept,
    elements_attribute_of,
    find_attribute,
    held_elements,
    integers_in,
    integers_in_list,
    is_cast,
    is_list,
    model_of,
    name_of,
    read_movements,
    shape_of,
    static_shape_of,
)
from qdialect.ops.model import OnElements, OnNumbers, imported, model_named
from qdialect.support.lazy_numpy import NDArray, np


class StoredElement(NamedTuple):
    """One element of a constant, and the casts that it is read through."""

    stored: np.generic
    """The stored element, of the dtype of its element type."""

    type: Attribute
    """The type of the element after the casts."""

    casts: tuple[Operation, ...]
    """The casts, starting at the constant."""


class Constants:
    """The elements of constant ops, each read once."""

    def __init__(self, resources: ResourceBlobs) -> None:
        self.resources = resources
        self._read: dict[Operation, Elements | Refusal] = {}
        self._shapes: dict[Operation, NDArray[np.integer[Any]]] = {}
        """The integers of scalar constants."""

    def read(self, op: Operation) -> Elements | None:
        """
        The elements of a constant, of the shape of its result; None if `op` is not a constant.

        Raises Refusal if the elements are not known, or do not have that shape.
        """
        elements = self._read.get(op)
        if elements is None:
            if elements_attribute_of(op) is None:
                return None
            try:
                elements = self._tensor(op)
            except Refusal as error:
                elements = error
            self._read[op] = elements
        if isinstance(elements, Refusal):
            raise elements
        return elements

    def _tensor(self, op: Operation) -> Elements:
        results = op.results
        parts = tensor_parts(results[0].type) if len(results) == 1 else None
        if parts is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "it is not a ranked tensor")
        values = self.elements(op)
        if values.shape != parts.shape:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its elements do not have the shape of its type")
        return values

    def unread(self, op: Operation) -> Unread | None:
        """What is known of the elements of a constant in a file; None for other ops."""
        if elements_attribute_of(op) is None or len(op.results) != 1:
            return None
        attribute = held_elements(op)
        parts = tensor_parts(op.results[0].type)
        if not isinstance(attribute, DenseResourceAttr) or parts is None:
            return None
        unread = self.resources.unread(attribute)
        return unread if unread is not None and unread.shape == parts.shape else None

    def forget(self, op: Operation) -> None:
        """Forget the elements of `op`: erasing the op then frees them."""
        self._read.pop(op, None)
        self._shapes.pop(op, None)

    def elements(self, op: Operation) -> Elements:
        """The elements of a constant op, as they are held. Raises Refusal."""
        attribute = held_elements(op)
        values: Elements | None = None
        try:
            if isinstance(attribute, DenseIntOrFPElementsAttr):
                values = elements_of(cast(DenseElementsAttr, attribute))
            elif isinstance(attribute, DenseResourceAttr):
                values = self.resources.read(attribute)
        except UnsupportedElementTypeError as error:
            raise Refusal(RefusalCode.NOT_CONSTANT, str(error)) from None
        if values is not None:
            return values
        if isinstance(attribute, DenseResourceAttr):
            if self.resources.unread(attribute) is not None:
                raise Refusal(RefusalCode.UNREAD, "its elements are in a file, and are not read")
            wrong = self.resources.why_unreadable(attribute)
            if wrong is not None:
                raise Refusal(RefusalCode.NOT_CONSTANT, wrong)
        raise Refusal(RefusalCode.NOT_CONSTANT, "the data of its constant is missing")

    def integers(self, op: Operation) -> NDArray[np.integer[Any]]:
        """The elements of a constant of integers: see `integers_in`. Raises Refusal."""
        if (known := self._shapes.get(op)) is not None:
            return known
        name = elements_attribute_of(op)
        if name is None:
            raise Refusal(
                RefusalCode.DYNAMIC_SHAPE,
                f"an operand that must be constant is a result of '{name_of(op)}'",
            )
        parts = tensor_parts(op.results[0].type)
        if parts is not None and (values := self.read(op)) is not None:
            return integers_in(values, parts.element_type)
        attribute = find_attribute(op, name)
        if isinstance(attribute, IntegerAttr):
            type = cast(Any, attribute.type)
            return as_integers(np.asarray(attribute.value.data), type)
        # The type of a tosa shape is not a tensor type.
        type = tensor_element_type(cast(Any, attribute).type)
        integers = self._shapes[op] = integers_in(self.elements(op), type)
        return integers

    def element(self, value: SSAValue) -> StoredElement:
        """A scalar constant, through the casts that it is read with. Raises Refusal."""
        op = value.owner
        if not isinstance(op, Operation):
            raise Refusal(RefusalCode.PADDING, "the padding is not constant")
        if is_cast(op):
            element = self.element(op.operands[0])
            return StoredElement(element.stored, op.results[0].type, (*element.casts, op))
        name = elements_attribute_of(op)
        attribute = find_attribute(op, name) if name is not None else None
        if not isinstance(attribute, IntegerAttr | FloatAttr):
            raise Refusal(RefusalCode.PADDING, "the padding is not constant")
        packable = cast(Any, attribute.type)
        try:
            dtype = element_dtype(packable)
        except UnsupportedElementTypeError as error:
            raise Refusal(RefusalCode.PADDING, str(error)) from None
        stored = np.frombuffer(packable.pack([attribute.value.data]), dtype=dtype)[0]
        return StoredElement(stored, op.results[0].type, ())


class ConstantOperands:
    """The constant operands of a shape op, such as offsets."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants

    def integers(self, value: SSAValue) -> NDArray[np.integer[Any]]:
        """The elements of an integer constant: see `integers_in`. Raises Refusal."""
        owner = value.owner
        if not isinstance(owner, Operation):
            raise Refusal(
                RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is an argument"
            )
        if is_list(owner):
            return integers_in_list(owner, self)
        return self.constants.integers(owner)

    def read(self, op: Operation, model: ShapeOpModel) -> Movements:
        """The effect of a shape op that may be folded. Raises Refusal."""
        check_not_kept(op)
        results = op.results
        if len(results) != 1 or tensor_parts(results[0].type) is None:
            raise Refusal(RefusalCode.UNKNOWN_OP, "its result is not a ranked tensor")
        return read_movements(op, model, self)


# Integers that a module computes from constants
#
# Exporters add the length of an axis to negative positions, or multiply an iota by a step.


_MOST_OPS: Final = 64

_MOST_ELEMENTS: Final = 1 << 16
"""Positions are few; what takes longer to compute is left to the run."""


def nonzero_as_true(op: Operation, numbers: Integers) -> Integers:
    """What an op makes of numbers: if its results are truth values, all but 0 are true."""
    type = element_type_or_self(op.results[0].type)
    is_truth = isinstance(type, IntegerType) and type.bitwidth == 1
    return (numbers != 0).astype(np.int64) if is_truth else numbers


def integers_from(op: Operation, start: int, limit: int, step: int) -> Integers:
    """The integers that an op counts from `start`, before `limit`. Raises Refusal."""
    counted = range(start, limit, step)
    if (len(counted),) != static_shape_of(op.results[0]):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"its result does not have {len(counted)} elements")
    return np.asarray(counted, dtype=np.int64)


def integers_of_op(op: Operation, operands: Sequence[Integers]) -> Integers:
    """The integers that an op computes from its operands. Raises Refusal."""
    if not computes_integers(op):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"'{name_of(op)}' computes them")
    return _wrapped(_computed(op, operands), element_type_or_self(op.results[0].type))


def _computed(op: Operation, operands: Sequence[Integers]) -> NDArray[Any]:
    model = model_named(name_of(op))
    function = model.integers
    if function is True:
        run = model.run
        function = run.function if isinstance(run, OnNumbers) else cast(OnElements, run).integers
    if not isinstance(function, str):
        return cast(IntegerFunction, function)(op, operands)
    on_elements = imported(function)
    # Functions of numpy write to further operands.
    if len(operands) != getattr(on_elements, "nin", len(operands)):
        raise Refusal(RefusalCode.UNKNOWN_OP, f"it has {len(operands)} operands")
    return on_elements(*operands)


def computes_integers(op: Operation) -> bool:
    """Whether `op` may compute integers, from others or from none."""
    return model_named(name_of(op)).integers is not None


def computed_integers(value: SSAValue, operands: Operands) -> Integers:
    """
    The integers of a value that ops compute from constants, which `operands` reads.

    Truth values are 0 and 1. Raises Refusal if they are not computed so, or by many ops.
    """
    order = list(dependencies_first([value], _made_of))
    if len(order) > _MOST_OPS:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant takes many ops")
    known: dict[SSAValue, Integers] = {}
    for source in order:
        op = source.owner
        if not _is_computed(source) or not isinstance(op, Operation):
            known[source] = _constant(source, operands)
            continue
        if np.prod(static_shape_of(source), dtype=object) > _MOST_ELEMENTS:
            raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is large")
        try:
            if computes_integers(op):
                numbers = _computed(op, [known[operand] for operand in op.operands])
            else:
                numbers = _moved(op, known, operands)
            if numbers.shape != static_shape_of(source):
                raise Refusal(
                    RefusalCode.UNKNOWN_OP, "its result does not have the shape of its type"
                )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Nothing verifies the ops of unregistered dialects.
            raise Refusal(RefusalCode.UNKNOWN_OP, f"it is malformed: {message_of(error)}") from None
        known[source] = _wrapped(numbers, element_type_or_self(source.type))
    return known[value]


def _is_computed(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Operation) and (computes_integers(op) or model_of(op) is not None)


def _made_of(value: SSAValue) -> Sequence[SSAValue]:
    return cast(Operation, value.owner).operands if _is_computed(value) else ()


def _constant(value: SSAValue, operands: Operands) -> Integers:
    type, op = element_type_or_self(value.type), value.owner
    if not isinstance(type, IntegerType) or type.bitwidth > 1:
        return operands.integers(value).astype(np.int64)
    is_constant = isinstance(op, Operation) and elements_attribute_of(op) is not None
    attribute = held_elements(cast(Operation, op)) if is_constant else None
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "truth values that must be constant are not")
    truths = as_view(elements_of(cast(DenseElementsAttr, attribute))).array()
    return (truths != 0).astype(np.int64)


def _moved(op: Operation, known: dict[SSAValue, Integers], operands: Operands) -> NDArray[Any]:
    model = model_of(op)
    assert model is not None
    read = read_movements(op, model, operands)
    if read.padding is not None:
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, "an operand that must be constant is padded")
    moved: Sequence[NDArray[Any]] = [known[operand] for operand in read.operands]
    for movement in read.movements:
        movement.result_shape(*[part.shape for part in moved])
        moved = [cast("Callable[..., NDArray[Any]]", movement)(*moved)]
    return moved[0]


def _wrapped(numbers: NDArray[Any], type: Attribute) -> Integers:
    if isinstance(type, IndexType):
        return numbers.astype(np.int64)
    if not isinstance(type, IntegerType):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    is_unsigned = type.bitwidth == 1 or has_signedness(cast(IntegerType, type), Signedness.UNSIGNED)
    if type.bitwidth > 64 or (is_unsigned and type.bitwidth > 32):
        raise Refusal(RefusalCode.DYNAMIC_SHAPE, f"elements of type '{type}' are computed")
    return StorageFormat(type.bitwidth, not is_unsigned).wrap(numbers.astype(np.int64))


# Shape ops that are identities, alone or with the op before them


def composition(
    movement: Movement, moves_nothing: bool, first: Movement, first_moves_nothing: bool
) -> Movement | None:
    """The movement that does `first` and then `movement`; None if no single one does."""
    if moves_nothing:
        return first
    return movement if first_moves_nothing else movement.after(first)


def unmoved_operand(op: Operation) -> SSAValue | None:
    """`f(x) = x` and `g(f(x)) = x`, where nothing moves and the type is the same."""
    read = _read(op)
    if read is None or _is_unmoved(*read, op):
        return None if read is None else read[1]
    movement, operand = read
    first = operand.owner
    inner = _read(first) if isinstance(first, Operation) else None
    if movement is None or inner is None or inner[0] is None:
        return None
    moves_nothing = [_moves_nothing(movement, operand), _moves_nothing(*inner)]
    composed = composition(movement, moves_nothing[0], inner[0], moves_nothing[1])
    return inner[1] if composed is not None and _is_unmoved(composed, inner[1], op) else None


def _read(op: Operation) -> tuple[Movement | None, SSAValue] | None:
    """The only movement of an op, or None if it does nothing, and its only operand."""
    if (model := model_of(op)) is None:
        return None
    try:
        read = ConstantOperands(Constants(ResourceBlobs(None))).read(op, model)
    except Refusal:
        return None
    if len(read.operands) != 1 or len(read.movements) > 1:
        return None
    (operand,), movement = read.operands, next(iter(read.movements), None)
    try:
        shape = shape_of(operand)
        if movement is not None:
            movement.result_shape(shape)
    except (MovementError, Refusal):
        return None
    return movement, operand


def _is_unmoved(movement: Movement | None, operand: SSAValue, op: Operation) -> bool:
    return operand.type == op.results[0].type and _moves_nothing(movement, operand)


def _moves_nothing(movement: Movement | None, operand: SSAValue) -> bool:
    if tensor_parts(operand.type) is None:
        return False
    return movement is None or movement.is_identity(shape_of(operand))
