"""Functions that JAX traces and lowers to StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.frontends.printed_modules import read_operation
from qdialect.ir.extras import library


def from_jax(
    function: Callable[..., object], *arguments: object, context: Context | None = None
) -> ModuleOp:
    """
    A function in StableHLO: the public function `main` of the module, as JAX lowers it.

    `arguments` have the shapes and dtypes to trace it with, such as `jax.ShapeDtypeStruct` or
    numpy arrays, or are pytrees of such; `main` has one tensor for each leaf, in the order of the
    leaves. All stay its arguments, also those that it does not use. A function that `jax.jit` has
    made is lowered as that was told to. Arrays that the function closes over are constants.

    https://docs.jax.dev/en/latest/aot.html

    Resources are kept in `context` if it is given; else, the module needs none. Raises
    MissingLibraryError without the extra `jax`, what JAX raises for a function that it cannot
    trace, and ParseError for what cannot be read.
    """
    jax: Any = library("jax", "jax")
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function, keep_unused=True)
    lowered = jitted.lower(*arguments)
    return read_operation(lowered.compiler_ir("stablehlo").operation, "<jax>", context)
