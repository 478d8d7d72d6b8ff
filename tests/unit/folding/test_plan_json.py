"""Errors for texts that are not plans, and for plans of other modules."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from qdialect.folding import FoldPolicy
from qdialect.folding.apply import apply
from qdialect.folding.fold_plan import PlanError
from qdialect.folding.plan import plan
from qdialect.folding.plan_json import plan_of_json, plans_to_json
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module

NO_PLAN: dict[str, Any] = {
    "sources": [],
    "steps": [],
    "constants": [],
    "removed": [],
    "joined": [],
    "refused": [],
}


def text_of(**held: Any) -> str:
    return json.dumps({"version": 1, "plans": [NO_PLAN | held], "types": []})


def step(type: Any = "i8", **movement: Any) -> list[Any]:
    movements = [movement] if movement else []
    return [{"name": "@f/%a", "op": "b.c", "type": type, "operands": [], "movements": movements}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": 1, "plans": [', "Expecting value: line 1 column 26"),
        ("[" * 100_000, "it is nested too deeply"),
        ("9" * 5000, "an integer has too many digits"),
        ("[]", "it must be an object, but is []"),
        ("{}", "'version' is missing"),
        ('{"version": true}', "version: it must be an integer, but is True"),
        ('{"version": 7}', "version 7 of plans is not supported"),
        ('{"version": 1, "plans": [{}], "types": []}', "plans[0]: 'sources' is missing"),
        ('{"version": 1, "plans": [], "types": [7]}', "types[0]: it must be a text, but is 7"),
        (text_of(sources=7), "plans[0].sources: it must be an array, but is 7"),
        (text_of(other=7), "plans[0].other: 'other' is unknown: the keys are sources, steps"),
        (text_of(joined=["@f/%a", None]), "plans[0].joined[1]: it must be a text, but is None"),
        (text_of(steps=step("tensor<")), "steps[0].type: there is no type 'tensor<'"),
        (text_of(steps=step("i8 i8")), "there is no type 'i8 i8': expected the end of the type"),
        (text_of(steps=step('!a.b<"' + "\\" * 60)), "steps[0].type: there is no type '!a.b<"),
        (text_of(steps=step("tensor<" * 9999)), "steps[0].type: there is no type 'tensor<"),
        (text_of(steps=step(3)), "steps[0].type: 'types' has no type 3"),
        (text_of(steps=step(-1)), "steps[0].type: 'types' has no type -1"),
        (text_of(steps=step([1])), "steps[0].type: it must be a text, but is [1]"),
        (
            text_of(steps=step(movement="Turn")),
            "steps[0].movements[0]: there is no movement 'Turn'",
        ),
        (
            text_of(steps=step(movement="Transpose", permutation=[1, 1])),
            "steps[0].movements[0]: permutation [1, 1] does not name each",
        ),
        (
            text_of(steps=step(movement="Transpose", order=[1, 0])),
            "movements[0].order: 'order' is unkn",
        ),
        (
            text_of(steps=step(movement="Chain", first=4, others=[{"movement": "Turn"}])),
            "steps[0].movements[0].others[0]: there is no movement 'Turn'",
        ),
        (
            text_of(refused=[{"name": "a", "op": "b", "code": "c", "reason": ""}]),
            "plans[0].refused[0].code: there is no code 'c'",
        ),
    ],
)
def test_texts_of_no_plan(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)) as raised:
        plan_of_json(text)
    assert str(raised.value).startswith("the text is not JSON of fold plans: ")


MODULE = """
func.func @f() -> tensor<2x2xi8> {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %t = "tosa.transpose"(%w) {perms = array<i32: 1, 0>} : (tensor<2x2xi8>) -> tensor<2x2xi8>
  return %t : tensor<2x2xi8>
}"""


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("sources", 0, "name"), "@f/%x", "sources[0]: the module has no constant, cast or shape"),
        (("steps", 0, "op"), "tosa.x", "steps[0]: @f/%t is made by 'tosa.transpose', not by"),
        (("steps", 0, "name"), "@f/%w", "steps[0]: @f/%w is made by 'arith.constant', not by"),
        (("steps", 0, "operands"), [], "steps[0]: @f/%t has other operands"),
        (("constants", 0, "step"), "@f/%w", "constants[0]: @f/%w cannot be folded: it moves nothi"),
        (("constants", 0, "types"), [], "constants[0]: @f/%t is of another type"),
        (("joined",), ["@f/%t"], "joined[0]: @f/%t is preceded by other ops than the plan"),
        (("removed",), [{"name": "@f/%w", "op": "tosa.x"}], "removed[0]: @f/%w is made by"),
    ],
)
def test_plans_of_other_modules(path: tuple[Any, ...], value: Any, message: str) -> None:
    context = ToolContext()
    module = parse_module(context, MODULE)
    content = json.loads(plans_to_json([plan(module, context, FoldPolicy())]))
    place = content["plans"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    before = str(module)
    with pytest.raises(PlanError, match=re.escape(message)):
        apply(plan_of_json(json.dumps(content)), module, context)
    assert str(module) == before
