"""The options of `qdialect-opt`, and their texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from qdialect.support.memory import DEFAULT_MAX_MEMORY

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec


class NestedSpec(NamedTuple):
    """Passes that run on each op of one name separately: `func.func(a,b)`."""

    anchor: str
    passes: tuple[PassSpec, ...]


PassSpec: TypeAlias = "ArgSpec | NestedSpec"


def single_passes(specs: Iterable[PassSpec]) -> Iterator[ArgSpec]:
    """The passes of a pipeline, and of those nested in it, in order."""
    for spec in specs:
        if isinstance(spec, NestedSpec):
            yield from single_passes(spec.passes)
        else:
            yield spec


MAX_MEMORY_HELP = "use at most this number of bytes beyond the input"

OP_FORMS = ("custom", "as-read", "llvm22", "llvm24", "generic")

SPLIT_MARKER = "// -----"


class Options:
    """The options of a run."""

    input_file: str = "-"
    output_file: str = "-"
    target: ArgSpec | None = None
    """None for MLIR text, printed according to the options."""

    pass_pipeline: str | None = None
    allow_unregistered_dialect: bool = False
    disable_verify: bool = False
    verify_each: bool = True
    no_implicit_module: bool = False
    op_form: str = "custom"
    """See `qdialect.text.syntax.PrintedForm`."""

    xdsl_ops: bool = False
    print_debuginfo: bool = False
    print_ir_after_all: bool = False
    split_input_file: bool = False
    time_passes: bool = False
    verify_diagnostics: bool = False
    remarks: bool = False
    fold_stats: bool = False
    fold_report: str | None = None
    max_memory: int = DEFAULT_MAX_MEMORY
    read_with: str | None = None
    fold_plan: str | None = None
    weights: str | None = None
    read_weights: str | None = None
    quantization_report: str | None = None
    quantization_table: bool = False
    debug: bool = False
    help: bool | Literal["all"] = False
    version: bool = False

    def __init__(self) -> None:
        self.passes: list[PassSpec] = []


OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Input": {
        "allow-unregistered-dialect": "accept unknown operations, in generic or plain form",
        "no-implicit-module": "refuse text that is not one builtin.module",
        "split-input-file": f"process each part between `{SPLIT_MARKER}` lines separately",
        "weights=MANIFEST": "the files of weights that resources without data stand for",
        "read-weights=NAMES": "read these weights; '*.scale,*.bias' are patterns of the shell",
        "read-with=COMMAND": "parse the generic form that COMMAND prints, a tool like mlir-opt",
    },
    "Output": {
        "print-op-generic": "print operations in generic form: --op-form=generic",
        "op-form=FORM": f"print operations in the form {', '.join(OP_FORMS)}",
        "print-debuginfo": "print locations",
        "o=FILE": "write there; after an error, the file is unchanged",
        "t=TARGET": "print as TARGET, not as MLIR",
    },
    "Run": {
        "disable-verify": "do not verify the module, before or after passes",
        "verify-each": "verify after each pass (default; =false to verify only the input)",
        "p=PASSES": "run 'a,b{option=value}'",
        "pass-pipeline=PASSES": "run 'builtin.module(a,b{option=value})'",
        "max-memory=BYTES": f"{MAX_MEMORY_HELP} ({DEFAULT_MAX_MEMORY})",
    },
    "Reports, on standard error or in files": {
        "print-ir-after-all": "print the module after each pass, on standard error",
        "time-passes": "print how long each pass took, on standard error",
        "remarks": "report each fold, and the reason for each shape op that is not folded",
        "fold-stats": "print a summary of the folds, on standard error",
        "quantization-table": "print how each value is quantized, and why, on standard error",
        "fold-report=FILE": "write a record of each fold and refusal there, as JSON",
        "fold-plan=FILE": "write the plan of each fold there, as JSON",
        "quantization-report=FILE": "write how each value is quantized, and why, there, as JSON",
    },
    "Other options": {
        "xdsl-ops": "read and verify the operations that xDSL has by its own classes",
        "verify-diagnostics": "compare errors with the `expected-error` comments in the text",
        "help": "print this help, and exit; with a pass, its options and an example",
        "version": "print the version, and exit",
    },
}
"""The texts of all options, in the groups of `--help`. A name with a value has its kind behind."""

SYNONYMS: Final[Mapping[str, str]] = {
    "mlir-print-op-generic": "print-op-generic",
    "mlir-print-debuginfo": "print-debuginfo",
    "mlir-print-ir-after-all": "print-ir-after-all",
    "print-between-passes": "print-ir-after-all",
    "mlir-timing": "time-passes",
    "h": "help",
    "v": "version",
    "output-file": "o",
    "passes": "p",
    "target": "t",
}
