"""
Serialization of plans to JSON.

Ops are identified by `OpNames`, and types are MLIR's text. A long type is written once, in
`types`, and referred to by its index there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from qdialect.algebra.movement import Movement
from qdialect.algebra.padding import PadWith, ZeroPoint
from qdialect.dialects.quant import Quant
from qdialect.folding.fold_plan import (
    FoldPlan,
    PlannedConstant,
    PlannedRefusal,
    PlannedRemoval,
    PlannedSource,
    PlannedStep,
)
from qdialect.shape_ops.interface import Code

VERSION: Final = 1

_PADDING: Final = "padded_with"
"""The field of `PadWith` that is not part of a plan."""

_LONG_TYPE: Final = 120
"""Types with a longer text are written once, in `types`."""

Json = dict[str, Any]


def plans_to_json(plans: Iterable[FoldPlan]) -> str:
    """One JSON text of several plans, which `plans_of_json` reads."""
    types = _TypeWriter()
    written = [_plan_to_json(plan, types) for plan in plans]
    return json.dumps({"version": VERSION, "plans": written, "types": types.long}, indent=1) + "\n"


def plan_of_json(text: str, context: Context | None = None) -> FoldPlan:
    """
    The plan in a JSON text that holds one: see `plans_of_json`.

    Raises ValueError if the text is malformed or does not hold exactly one plan.
    """
    plans = plans_of_json(text, context)
    if len(plans) != 1:
        raise ValueError(f"the text holds {len(plans)} plans, not one")
    return plans[0]


def plans_of_json(text: str, context: Context | None = None) -> Sequence[FoldPlan]:
    """
    The plans in a JSON text: one for each fold of a module.

    Types are parsed with the dialects of `context`, by default builtin and quant. Raises
    ValueError if the text is malformed.
    """
    if context is None:
        context = Context(allow_unregistered=True)
        context.load_dialect(Builtin)
        context.load_dialect(Quant)
    try:
        content = json.loads(text)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']} of plans is not supported")
        types, movements = _TypeReader(content["types"], context), _known_movements()
        return [_plan_of_json(plan, types, movements) for plan in content["plans"]]
    except json.JSONDecodeError as error:
        raise ValueError(f"the text is not JSON of fold plans: {error}") from None
    except ParseError as error:
        raise ValueError(
            f"the text is not JSON of fold plans: it has no type '{error.span.input.content}': "
            f"{error.msg}"
        ) from None
    except KeyError as error:
        raise ValueError(f"the text is not JSON of fold plans: {error} is missing") from None
    except (AttributeError, IndexError, TypeError, RecursionError) as error:
        raise ValueError(f"the text is not JSON of fold plans: {error}") from None


class _TypeWriter:
    def __init__(self) -> None:
        self.long: list[str] = []
        self._written: dict[Attribute, str | int] = {}

    def __call__(self, type: Attribute) -> str | int:
        if (known := self._written.get(type)) is not None:
            return known
        text: str | int = str(type)
        if len(str(text)) > _LONG_TYPE:
            self.long.append(str(text))
            text = len(self.long) - 1
        self._written[type] = text
        return text


class _TypeReader:
    def __init__(self, long: Sequence[str], context: Context) -> None:
        self._long = long
        self._context = context
        self._read: dict[str | int, Attribute] = {}

    def __call__(self, written: str | int) -> Attribute:
        if (known := self._read.get(written)) is not None:
            return known
        text = self._long[written] if isinstance(written, int) else written
        type = self._read[written] = Parser(self._context, text).parse_type()
        return type


def _plan_to_json(plan: FoldPlan, type: Callable[[Attribute], str | int]) -> Json:
    return {
        "sources": [
            {
                "name": source.name,
                "op": source.op,
                "type": type(source.type),
                **({} if source.resource is None else {"resource": source.resource}),
                "bytes": source.nbytes,
                "kept": source.is_kept,
            }
            for source in plan.sources
        ],
        "steps": [
            {
                "name": step.name,
                "op": step.op,
                "type": type(step.type),
                "operands": step.operands,
                "movements": list(map(_movement_to_json, step.movements)),
                **({} if step.into is None else {"into": step.into}),
            }
            for step in plan.steps
        ],
        "constants": [
            {
                "step": constant.name,
                "sources": constant.sources,
                "casts": constant.casts,
                "types": list(map(type, constant.types)),
                "bytes": constant.nbytes,
            }
            for constant in plan.constants
        ],
        "removed": [
            {
                "name": removal.name,
                "op": removal.op,
                **({} if removal.into is None else {"into": removal.into}),
            }
            for removal in plan.removed
        ],
        "joined": plan.joined,
        "refused": [
            {
                "name": refusal.name,
                "op": refusal.op,
                "code": refusal.code.value,
                "reason": refusal.reason,
            }
            for refusal in plan.refused
        ],
    }


def _plan_of_json(
    plan: Json,
    type: Callable[[str | int], Attribute],
    movements: Mapping[str, type[Movement]],
) -> FoldPlan:
    return FoldPlan(
        tuple(
            PlannedSource(
                source["name"],
                source["op"],
                type(source["type"]),
                source.get("resource"),
                source["bytes"],
                source["kept"],
            )
            for source in plan["sources"]
        ),
        tuple(
            PlannedStep(
                step["name"],
                step["op"],
                type(step["type"]),
                tuple(step["operands"]),
                tuple(_movement_of_json(each, movements) for each in step["movements"]),
                step.get("into"),
            )
            for step in plan["steps"]
        ),
        tuple(
            PlannedConstant(
                constant["step"],
                tuple(constant["sources"]),
                tuple(constant["casts"]),
                tuple(map(type, constant["types"])),
                constant["bytes"],
            )
            for constant in plan["constants"]
        ),
        tuple(
            PlannedRemoval(
                removal["name"],
                removal["op"],
                removal.get("into"),
            )
            for removal in plan["removed"]
        ),
        tuple(plan["joined"]),
        tuple(
            PlannedRefusal(refusal["name"], refusal["op"], Code(refusal["code"]), refusal["reason"])
            for refusal in plan["refused"]
        ),
    )


def _movement_to_json(movement: Movement) -> Json:
    held = {
        field.name: _value_to_json(getattr(movement, field.name))
        for field in fields(movement)
        if not (isinstance(movement, PadWith) and field.name == _PADDING)
    }
    return {"movement": _name_of(type(movement)), **held}


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Movement):
        return _movement_to_json(value)
    if isinstance(value, tuple):
        return [_value_to_json(item) for item in cast("tuple[Any, ...]", value)]
    return value


def _movement_of_json(written: Json, known: Mapping[str, type[Movement]]) -> Movement:
    name = written["movement"]
    if name not in known:
        raise ValueError(f"there is no movement '{name}'")
    held = {key: _value_of_json(value, known) for key, value in written.items()}
    del held["movement"]
    if issubclass(known[name], PadWith):
        held[_PADDING] = ZeroPoint()
    return known[name](**held)


def _value_of_json(value: Any, known: Mapping[str, type[Movement]]) -> Any:
    if isinstance(value, dict):
        return _movement_of_json(cast(Json, value), known)
    if isinstance(value, list):
        return tuple(_value_of_json(item, known) for item in cast("list[Any]", value))
    return value


def _known_movements() -> Mapping[str, type[Movement]]:
    """All classes of movements by name, including those of other packages."""
    known: dict[str, type[Movement]] = {}
    pending = Movement.__subclasses__()
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        known[_name_of(cls)] = cls
    return known


def _name_of(cls: type[Movement]) -> str:
    is_own = cls.__module__.startswith("qdialect.algebra.")
    return cls.__name__ if is_own else f"{cls.__module__}.{cls.__qualname__}"
