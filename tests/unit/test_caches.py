"""The caches of a process are bounded, and can be emptied."""

import gc
import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ModuleOp

import qdialect
from qdialect import clear_caches
from qdialect.algebra.bounded_cache import BoundedCache, registered_caches
from qdialect.passes import FoldQuantShapesPass, LowerQuantOpsPass, SinkQuantShapesPass
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter
from qdialect.tools.diagnostics import DiagnosticPrinter
from qdialect.tools.registry import ToolContext
from qdialect.tools.verifier import ModuleVerifier


def modules() -> Iterator[ModuleType]:
    """All modules of the package."""
    for found in pkgutil.walk_packages(qdialect.__path__, "qdialect."):
        if found.name != "qdialect.__main__":
            yield importlib.import_module(found.name)


def test_every_cache_is_registered():
    found: list[str] = []
    for module in modules():
        holders = [module, *(v for v in vars(module).values() if isinstance(v, type))]
        for holder in holders:
            if getattr(holder, "__module__", module.__name__) != module.__name__:
                continue
            for name, value in vars(holder).items():
                if callable(getattr(value, "cache_clear", None)) and not isinstance(value, type):
                    assert value in registered_caches(), f"{module.__name__}.{name}"
                    found.append(name)
    # Those that were found in another way.
    assert {"_KNOWN_TEXTS", "_KNOWN_MOVED_LAYERS", "_regroup", "element_dtype"} <= {*found}
    assert len(found) > 20


TEXT = """
!q = !quant.uniform<i8:f32:0, {SLOTS}>
func.func @f(%x: tensor<8x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = quant.constant dense<1> : tensor<8x4x!q>
  %d = quant.dcast %w : tensor<8x4x!q> to tensor<8x4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%d : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  %q = quant.qcast %x : tensor<8x4xf32> to tensor<8x4x!q>
  %y = quant.dcast %q : tensor<8x4x!q> to tensor<8x4xf32>
  %u = linalg.transpose ins(%y : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  return %t, %u : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def process(number: int) -> None:
    """Read, verify, change and print a module with types that no other has."""
    slots = ", ".join(f"{1 + number * 0.001 + slot * 0.0001:.6f}:{slot % 5}" for slot in range(8))
    context = ToolContext()
    module = LocatingParser(context, TEXT.replace("SLOTS", f"{{{slots}}}")).parse_module()
    assert is_valid(module)
    FoldQuantShapesPass(verify="values").apply(context, module)
    SinkQuantShapesPass().apply(context, module)
    LowerQuantOpsPass().apply(context, module)
    assert is_valid(module)
    MLIRPrinter(io.StringIO()).print_module(context, module)


def is_valid(module: ModuleOp) -> bool:
    return ModuleVerifier(lambda op: op.name, DiagnosticPrinter(sys.stderr)).verify(module)


def blocks() -> int:
    """How many pieces of memory are in use."""
    gc.collect()
    return sys.getallocatedblocks()


def bounded_caches() -> list[BoundedCache[Any, Any]]:
    """The caches whose entries may be large."""
    caches = cast("tuple[Any, ...]", registered_caches())
    return [cache for cache in caches if isinstance(cache, BoundedCache)]


def entries() -> int:
    """How many entries they have."""
    return sum(map(len, bounded_caches()))


def containers() -> dict[str, int]:
    """The number of items in module-level containers that are not caches."""
    return {
        f"{module.__name__}.{name}": len(cast("list[Any]", value))
        # All are imported first: a module may register something in another one.
        for module in [*modules()]
        for name, value in vars(module).items()
        if isinstance(value, dict | list | set) and not name.startswith("__")
    }


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches for some 30 short entries each."""
    clear_caches()
    for cache in bounded_caches():
        monkeypatch.setattr(cache, "max_bytes", 50_000)
    yield
    clear_caches()


def test_nothing_is_left_of_modules_with_types_of_their_own():
    # What is imported and made once.
    process(0)
    clear_caches()
    containers_before, before = containers(), blocks()
    for number in range(1, 100):
        process(number)
    assert entries() > 700
    assert containers() == containers_before
    clear_caches()
    assert entries() == 0
    # Each module alone needs thousands.
    assert blocks() - before < 1000


@pytest.mark.usefixtures("small_caches")
def test_memory_levels_off():
    process(0)
    counts: list[int] = []
    for batch in range(4):
        for number in range(50):
            process(1 + 50 * batch + number)
        counts.append(blocks())
    # As many as in a quarter of the modules are in all caches at the most.
    assert max(counts) - counts[0] < counts[0] // 10
