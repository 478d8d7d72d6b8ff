"""What a name on the command line or in the text means: dialects, passes, targets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from typing_extensions import TypeVar, override
from xdsl.context import Context
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute

from qdialect.dialects.builtin import fresh_builtin
from qdialect.errors import describe, first_line
from qdialect.fold_report_listener import FoldReportListener
from qdialect.tools.command_line import NestedSpec
from qdialect.tools.tool_error import TOOL, ToolError

if TYPE_CHECKING:
    from xdsl.passes import ModulePass
    from xdsl.universe import Universe
    from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible
    from xdsl.utils.target import Target

    from qdialect.fold_report import FoldReport
    from qdialect.tools.command_line import PassSpec

ConvertibleT = TypeVar("ConvertibleT", bound="ArgSpecConvertible")


@cache
def _plugins() -> tuple[Universe, ...]:
    """What other packages plug into xDSL. Those that do not load are left out."""
    from importlib.metadata import entry_points

    from xdsl.universe import Universe

    universes: list[Universe] = []
    for plugin in entry_points(group="xdsl.universe"):
        try:
            universe = plugin.load()
        except Exception as error:
            sys.stderr.write(
                f"{TOOL}: warning: plug-in '{plugin.name}' does not load: {describe(error)}\n"
            )
        else:
            if isinstance(universe, Universe):
                universes.append(universe)
    return tuple(universes)


@cache
def _dialects() -> dict[str, Callable[[], Dialect]]:
    from xdsl import dialects

    from qdialect import universe

    return {
        "shape": _shape,
        **dialects.get_all_dialects(),
        **universe.get_all_dialects(),
        "arith": _arith_on_tensors,
        "tensor": _tensor_without_rank,
        "tosa": _tosa_with_additions,
    }


@cache
def _passes() -> dict[str, Callable[[], type[ModulePass]]]:
    from xdsl import transforms

    from qdialect import universe

    return {**transforms.get_all_passes(), **universe.get_all_passes()}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """All passes by name, those of plug-ins too."""
    plugged = (plugin.all_passes for plugin in _plugins())
    return {name: factory for passes in plugged for name, factory in passes.items()} | _passes()


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """All targets by name, those of plug-ins too."""
    from xdsl import targets

    plugged = (plugin.all_targets for plugin in _plugins())
    own = targets.get_all_targets()
    return {name: factory for found in plugged for name, factory in found.items()} | own


def find_pass(name: str) -> Callable[[], type[ModulePass]] | None:
    """The pass of that name, which plug-ins are asked for last."""
    return _passes().get(name) or next(
        (plugin.all_passes[name] for plugin in _plugins() if name in plugin.all_passes),
        None,
    )


class ToolContext(Context, FoldReportListener):
    """
    Knows all dialects, and looks for one that it does not know among the plug-ins.
    Keeps what passes have to tell of their folds.

    Resources belong to the context, unlike xDSL's, where they are shared by all modules
    of a process.
    """

    def __init__(self, allow_unregistered: bool = False) -> None:
        super().__init__(allow_unregistered)
        self.fold_reports: list[FoldReport] = []
        for name, factory in _dialects().items():
            self.register_dialect(name, fresh_builtin if name == "builtin" else factory)

    @override
    def take_fold_report(self, report: FoldReport) -> None:
        self.fold_reports.append(report)

    @override
    def get_optional_op(
        self, name: str, *, dialect_stack: Sequence[str] = ()
    ) -> type[Operation] | None:
        self._look_for_dialect(name)
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    @override
    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        self._look_for_dialect(name)
        return super().get_optional_type(name)

    @override
    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        self._look_for_dialect(name)
        return super().get_optional_attr(name)

    def _look_for_dialect(self, name: str) -> None:
        dialect, dot, _ = name.partition(".")
        if not dot or dialect in self._registered_dialects:
            return
        for plugin in _plugins():
            if dialect in plugin.all_dialects:
                factory = plugin.all_dialects[dialect]
                if dialect == "stablehlo":
                    factory = partial(_stablehlo_with_additions, factory)
                self.register_dialect(dialect, factory)
                return


def _shape() -> Dialect:
    from qdialect.dialects.shape import Shape

    return Shape


def _arith_on_tensors() -> Dialect:
    from xdsl.dialects.arith import Arith

    from qdialect.dialects import arith

    return _with_ops(Arith, arith.OPS)


def _tensor_without_rank() -> Dialect:
    from xdsl.dialects.tensor import Tensor

    from qdialect.dialects.tensor import ReshapeOp

    return _with_ops(Tensor, [ReshapeOp])


def _with_ops(dialect: Dialect, ops: Sequence[type[Operation]]) -> Dialect:
    """`dialect`, with `ops` in the place of those that have the same names."""
    operations = {op.name: op for op in (*dialect.operations, *ops)}
    return Dialect(
        dialect.name,
        list(operations.values()),
        list(dialect.attributes),
        list(dialect._interfaces),  # pyright: ignore[reportPrivateUsage]
    )


def _tosa_with_additions() -> Dialect:
    from xdsl.dialects.tosa import TOSA

    from qdialect.dialects.tosa import with_additions

    return with_additions(TOSA)


@cache
def _stablehlo_with_additions(stablehlo: Callable[[], Dialect]) -> Dialect:
    from qdialect.dialects.stablehlo import with_additions

    return with_additions(stablehlo())


def make_pass(spec: PassSpec) -> ModulePass:
    """The pass of that name, with its options, or a pipeline of them. Raises ToolError."""
    if isinstance(spec, NestedSpec):
        from qdialect.tools.nested_pipeline import NestedPipeline

        return NestedPipeline(spec.anchor, tuple(map(make_pass, spec.passes)))
    return _make("pass", find_pass(spec.name), spec)


def make_target(spec: ArgSpec | None) -> Target | None:
    """None stands for MLIR as the options say. Raises ToolError."""
    if spec is None or (spec.name == "mlir" and not spec.parameters):
        return None
    return _make("target", get_all_targets().get(spec.name), spec)


def _make(
    kind: str,
    factory: Callable[[], type[ConvertibleT]] | None,
    spec: ArgSpec,
) -> ConvertibleT:
    """What a name with options asks for. Raises ToolError."""
    from dataclasses import fields

    if factory is None:
        raise ToolError(f"there is no {kind} '{spec.name}'")
    try:
        cls = factory()
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}' does not load: {describe(error)}") from error
    known = [f.name.replace("_", "-") for f in fields(cls) if f.init]
    for option in spec.parameters:
        if option.replace("_", "-") not in known:
            raise ToolError(
                f"{kind} '{spec.name}' has no option '{option}' "
                f"(it has: {', '.join(known) or 'none'})"
            )
    try:
        return cls.from_spec(spec)
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}': {first_line(error)}") from error
