"""The names of schemes are the same in all passes, and in the documentation."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from qdialect.opt.registry import make_pass
from qdialect.passes import PASSES
from qdialect.ptq.assignment.settings import precision_of
from qdialect.ptq.schemes.presets import I8, SCHEMES, SYSTEMS, U8, luci, scheme_of, system_of

NAMES = (*SYSTEMS, *SCHEMES)


def pass_classes() -> list[type[ModulePass]]:
    import qdialect.passes

    return [getattr(qdialect.passes, name) for name in PASSES.values()]


OPTIONS = [
    (cls.name, option.name.replace("_", "-"))
    for cls in pass_classes()
    for option in fields(cls)
    if option.name in ("scheme", "weight_scheme")
]


@pytest.mark.parametrize(("flag", "option"), OPTIONS)
def test_every_pass_takes_every_name(flag: str, option: str):
    for name in (*NAMES, "luci"):
        make_pass(ArgSpec(flag, {option: (name,)}))


def test_a_system_names_its_schemes():
    for name, (storage, activations, weights) in SYSTEMS.items():
        precision = precision_of(name)
        assert precision.activations == scheme_of(activations, storage)
        assert precision.weights.scheme == scheme_of(weights, storage) == scheme_of(name)
    assert scheme_of("one-u8") == luci(U8)
    assert scheme_of("one-u8", I8) == scheme_of("one") == scheme_of("luci") == luci(I8)
    assert system_of("uint8") == SYSTEMS["one-u8"]


def test_the_documentation_has_all_names():
    page = Path(__file__).parents[3] / "docs" / "quantization.md"
    section = page.read_text(encoding="utf-8").partition("\n## Schemes\n")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall("`(.*?)`", row[1])] == list(NAMES)
    for _, name, activations, weights, storage, *_ in rows[: len(SYSTEMS)]:
        system = SYSTEMS[name.strip(" `")]
        assert system.activations == activations.strip(" `")
        assert system.weights == weights.strip(" `")
        sign = "i" if system.storage.signed else "u"
        assert storage.strip() == f"{sign}{system.storage.width}"
