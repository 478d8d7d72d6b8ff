"""The ends of messages about ops and types that are not known: what the reader can do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Final

from xdsl.context import Context
from xdsl.ir import Dialect


class CommandLineContext(Context):
    """A context of a tool: hints name its flags. Hints of others speak of Python."""


_OF_MLIR: Final = (
    " acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf complex "
    "dlti emitc func gpu index irdl linalg llvm math memref ml_program mpi nvgpu nvvm omp pdl "
    "pdl_interp ptr quant rocdl scf shape shard smt sparse_tensor spirv tensor tosa transform ub "
    "vector wasmssa x86vector xegpu xevm stablehlo chlo vhlo mhlo "
)
"""The dialects of MLIR 22, and of StableHLO, whose tools read what is not read here."""


def has_other_tools(context: Context, name: str) -> bool:
    """Whether another tool may know the op or type `name`, as its dialect is MLIR's, or unknown."""
    dialect = name.partition(".")[0]
    return f" {dialect} " in _OF_MLIR or dialect not in context.registered_dialect_names


def generic_form(context: Context) -> str:
    """The advice for an op that may have a custom form that is not read."""
    advice = "use the generic form that mlir-opt --mlir-print-op-generic prints"
    is_tool = isinstance(context, CommandLineContext)
    return f"{advice} (see --read-with=COMMAND)" if is_tool else advice


def unregistered(context: Context) -> str:
    """The advice for what xDSL lacks."""
    if isinstance(context, CommandLineContext):
        return "use --allow-unregistered-dialect"
    return "set allow_unregistered of the context"


def of_dialect(context: Context, dialect: str) -> str:
    """How a dialect that the context lacks is loaded: the end of a message, or nothing."""
    if isinstance(context, CommandLineContext):
        return ""
    if dialect == "quant":
        return "; context.load_dialect(Quant) loads it, from qdialect.dialects.quant"
    module = f"xdsl.dialects.{dialect}"
    members = dict[str, object]()
    # The dialect may be of another package.
    with suppress(ImportError):
        members = vars(import_module(module))
    for name, member in members.items():
        if isinstance(member, Dialect) and member.name == dialect:
            return f"; context.load_dialect({name}) loads it, from {module}"
    return "; load it with the method load_dialect of the context"


def near_op(context: Context, name: str) -> str:
    """The op of the same dialect that was perhaps meant: the end of a message, or nothing."""
    dialect = context.get_optional_dialect(name.partition(".")[0])
    return "" if dialect is None else _near(name, (op.name for op in dialect.operations))


def near_symbol(context: Context, name: str) -> str:
    """The same for a type or an attribute."""
    dialect = context.get_optional_dialect(name.partition(".")[0])
    return "" if dialect is None else _near(name, (each.name for each in dialect.attributes))


def _near(name: str, known: Iterable[str]) -> str:
    # Only messages about unknown names need it (7 ms).
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
