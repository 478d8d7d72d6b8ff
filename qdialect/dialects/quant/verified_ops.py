"""Verifiers that run once for all ops that they cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation

from qdialect.dialects.quant.types import UniformQuantizedType
from qdialect.dialects.value_types import element_type_or_self
from qdialect.memo import Memo

OpT = TypeVar("OpT", bound=IRDLOperation)


def types_and_properties(op: IRDLOperation) -> Sequence[Attribute]:
    """All that the verifier of most ops of the quant dialect looks at."""
    return (*op.operand_types, *op.result_types, *op.properties.values())


class _OpDecorator(Protocol):
    def __call__(self, cls: type[OpT], /) -> type[OpT]: ...


def verified_once_for(
    looked_at: Callable[[IRDLOperation], Sequence[Attribute] | None],
) -> _OpDecorator:
    """
    Have the verifier of a class run once for the ops for which `looked_at` gives the same.

    That is all that the verifier looks at, besides the names of properties, and how many
    operands there are; None for an op that is verified each time.
    """

    def decorate(cls: type[OpT]) -> type[OpT]:
        verify = cls.verify_
        # What is the same is mostly one object. The memo keeps it, so that no other has its id.
        valid = Memo[tuple[object, ...], Sequence[Attribute]]()

        def verify_(self: OpT) -> None:
            subjects = None if self.regions or self.successors else looked_at(self)
            if subjects is None:
                verify(self)
                return
            key = (len(self.operands), *self.properties, *map(id, subjects))
            if valid.get(key) is None:
                verify(self)
                valid.add(key, subjects, sum(map(_scales, subjects)))

        cls.verify_ = verify_
        return cls

    return decorate


def _scales(attribute: Attribute) -> int:
    """How many there are in a type, or in the type of its elements."""
    type = element_type_or_self(attribute)
    return type.scales.size if isinstance(type, UniformQuantizedType) else 0
