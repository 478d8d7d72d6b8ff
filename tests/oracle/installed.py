"""Which optional libraries are installed; tests that need others are skipped."""

from importlib.util import find_spec

import pytest


def is_installed(library: str) -> bool:
    """Whether a module can be imported; its package may be missing."""
    package = library.partition(".")[0]
    return find_spec(package) is not None and find_spec(library) is not None


def needs(*libraries: str) -> pytest.MarkDecorator:
    """Skip a test unless all of these modules can be imported."""
    missing = [library for library in libraries if not is_installed(library)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")
