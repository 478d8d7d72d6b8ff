"""Errors for texts that are not plans."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from qdialect.folding.plan_json import plan_of_json

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
        ('{"version": 1, "plans": [', "not JSON of fold plans: Expecting value: line 1 column 26"),
        ("[]", "not JSON of fold plans"),
        ("7", "not JSON of fold plans"),
        ("{}", "'version' is missing"),
        ('{"version": 7}', "version 7 of plans is not supported"),
        ('{"version": 1, "plans": [{}], "types": []}', "'sources' is missing"),
        (text_of(steps=step("tensor<")), "it has no type 'tensor<'"),
        (text_of(steps=step(3)), "not JSON of fold plans"),
        (text_of(steps=step([1])), "not JSON of fold plans"),
        (text_of(steps=step(movement="Turn")), "there is no movement 'Turn'"),
        (text_of(steps=step(movement="Transpose", permutation=[1, 1])), "does not name each"),
        (text_of(steps=step(movement="Transpose", order=[1, 0])), "not JSON of fold plans"),
        (text_of(refused=[{"name": "a", "op": "b", "code": "c", "reason": ""}]), "'c' is not a"),
    ],
)
def test_other_texts(text: str, message: str):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        plan_of_json(text)
    assert "Error(" not in str(raised.value)
