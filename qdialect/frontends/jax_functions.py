"""Functions that are traced and lowered to StableHLO by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.printed_modules import read_operation
from qdialect.support.extras import library


def from_jax(
    function: Callable[..., object], *arguments: object, context: Context | None = None
) -> ModuleOp:
    """
    Import a function as StableHLO: the public function `main` of the module, as JAX lowers it.

    `arguments` give the shapes and dtypes to trace it with: `jax.ShapeDtypeStruct`s, numpy arrays,
    or pytrees of these. `main` has one tensor argument for each leaf, in the order of the leaves,
    including unused ones. A function made by `jax.jit` is lowered with its own options. Arrays that
    the function closes over are constants.

    https://docs.jax.dev/en/latest/aot.html

    Resources are kept in `context` if it is given; otherwise, the module has none. Raises
    MissingLibraryError without the extra `jax`, JAX's own errors for a function that it cannot
    trace, and ParseError for text that cannot be read.
    """
    jax: Any = library("jax", "jax")
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*arguments)
    return read_operation(lowered.compiler_ir("stablehlo").operation, "<jax>", context)
