"""
The settings of property tests, and fixtures: for isolation, and to disable features.

Property tests have no time limit. The seed decides what they draw, on CI too.
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_counts import examples
from hypothesis import HealthCheck, settings
from installed import is_installed
from registrations import taken_back

settings.register_profile(
    "untimed",
    examples(100),
    deadline=None,
    # By default, the examples are always the same where the variable `CI` is set.
    derandomize=False,
    # How to have an example that fails again.
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# By default, libraries that have been imported are visited again and again, in a tenth of the time.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what depends on numpy alone, as test_layers.py checks; skip what lacks IREE."""
    numbers = {Path(__file__).parent / folder for folder in ("algebra",)}
    has_iree = is_installed("iree.compiler") and is_installed("iree.runtime")
    without_iree = pytest.mark.skip(
        reason="iree-base-compiler and iree-base-runtime are not installed"
    )
    for item in items:
        if not has_iree and item.get_closest_marker("iree"):
            item.add_marker(without_iree)
        if not numbers.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.without_xdsl)


@pytest.fixture(scope="module", autouse=True)
def registered_by_files() -> Iterator[None]:
    """Other files do not see what fixtures of a file register for all contexts."""
    with taken_back():
        yield


@pytest.fixture(autouse=True)
def registered_by_tests(registered_by_files: None) -> Iterator[None]:
    """Other tests do not see what a test registers for all contexts."""
    with taken_back():
        yield


@pytest.fixture(scope="module")
def without_plugins() -> Iterator[None]:
    """Ops of StableHLO are unregistered, and nothing verifies them, whatever is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qdialect.opt.registry._plugins", tuple[()])
        yield


@pytest.fixture(scope="module")
def all_is_large() -> Iterator[None]:
    """Folds let go of each constant as soon as they can, as they do with large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qdialect.folding.apply.LARGE_BYTES", 0)
        yield
