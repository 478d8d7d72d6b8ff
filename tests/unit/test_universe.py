"""The plug-in of xdsl-opt."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl import dialects as xdsl_dialects
from xdsl import transforms as xdsl_transforms
from xdsl.universe import Universe

from qdialect import passes
from qdialect.opt import universe


@pytest.fixture
def reloaded() -> Iterator[None]:
    yield
    importlib.reload(universe)


def test_xdsl_finds_the_dialect_and_the_passes():
    multiverse = Universe.get_multiverse()
    assert multiverse.all_dialects["quant"]().name == "quant"
    for name, factory in universe.get_all_passes().items():
        assert multiverse.all_passes[name]().name == name == factory().name


def test_all_passes_are_exported():
    """Under the names of their classes, and the modules under those of their flags."""
    for factory in universe.get_all_passes().values():
        cls = factory()
        assert getattr(passes, cls.__name__) is cls
        assert (cls.__name__ in passes.__all__) == cls.__module__.startswith("qdialect.passes.")
    package = Path(passes.__file__ or "").parents[1]
    paths = [*package.glob("passes/*.py"), *package.glob("ptq/passes/*.py")]
    paths += package.glob("integers/passes.py")
    paths += package.glob("weights/parameters.py")
    modules = {".".join(path.relative_to(package).with_suffix("").parts) for path in paths}
    listed = {module for group in passes.GROUPS.values() for module in group.values()}
    assert {name for name in modules if not name.endswith("__init__")} == listed
    assert {*passes.__all__} <= {*passes.PASSES.values(), "GROUPS", "PASSES"}


def test_what_xdsl_has_is_left_to_it():
    assert "canonicalize" in universe.get_all_passes()
    assert "canonicalize" not in universe.QDIALECT_UNIVERSE.all_passes


@pytest.mark.usefixtures("reloaded")
def test_xdsl_may_have_names_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """What xDSL ships one day is left to it; otherwise `xdsl-opt` would not even start."""
    dialects = {
        **xdsl_dialects.get_all_dialects(),
        "quant": xdsl_dialects.get_all_dialects()["arith"],
    }
    passes = {**xdsl_transforms.get_all_passes(), "inline": xdsl_transforms.get_all_passes()["dce"]}
    monkeypatch.setattr(xdsl_dialects, "get_all_dialects", lambda: dialects)
    monkeypatch.setattr(xdsl_transforms, "get_all_passes", lambda: passes)
    importlib.reload(universe)
    assert "quant" not in universe.QDIALECT_UNIVERSE.all_dialects
    assert "inline" not in universe.QDIALECT_UNIVERSE.all_passes
    assert "fold-quant-shapes" in universe.QDIALECT_UNIVERSE.all_passes
    # The tool has ours all the same.
    assert "quant" in universe.get_all_dialects()
