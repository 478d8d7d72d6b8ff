"""The caches of a process are bounded, and can be emptied."""

import gc
import io
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
from registrations import containers, modules
from xdsl.dialects.builtin import ModuleOp

from qdialect import clear_caches
from qdialect.opt.diagnostics import DiagnosticPrinter
from qdialect.opt.registry import ToolContext
from qdialect.opt.verifier import ModuleVerifier
from qdialect.passes import FoldQuantShapesPass, LowerQuantOpsPass, SinkQuantShapesPass
from qdialect.support.memory import BoundedCache, registered_caches
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter


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
    assert {"_KNOWN_TEXTS", "_KNOWN_MOVED_LAYERS", "element_dtype", "regroup"} <= {*found}
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


def sizes() -> dict[str, int]:
    """How many items the containers have that are no caches, but live as long."""
    return {name: len(container) for name, container in containers().items()}


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches for some 15 short entries each."""
    clear_caches()
    for cache in bounded_caches():
        monkeypatch.setattr(cache, "max_bytes", 25_000)
    yield
    clear_caches()


def test_nothing_is_left_of_modules_with_types_of_their_own():
    # What is imported and made once.
    process(0)
    clear_caches()
    sizes_before, before = sizes(), blocks()
    for number in range(1, 100):
        process(number)
    assert entries() > 700
    assert sizes() == sizes_before
    clear_caches()
    assert entries() == 0
    # Each module alone needs thousands.
    assert blocks() - before < 1000


@pytest.mark.usefixtures("small_caches")
def test_memory_levels_off():
    process(0)
    counts: list[int] = []
    for batch in range(4):
        for number in range(25):
            process(1 + 25 * batch + number)
        counts.append(blocks())
    # Caches without bounds would take some 150 blocks more for each of 75 modules.
    assert max(counts) - counts[0] < 5000
