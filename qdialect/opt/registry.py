"""The dialects, passes and targets by name, including those of plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache, lru_cache, partial
from threading import RLock
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from typing_extensions import TypeVar, override
from xdsl import dialects
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredAttr, UnregisteredOp
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.hints import type_repr

from qdialect.folding import FoldReportListener, WarningListener
from qdialect.ir.errors import OpErrors, describe, first_line, op_name, place_of
from qdialect.ir.resources import fresh_builtin
from qdialect.ir.xdsl_private import is_registered, rebuilt
from qdialect.opt import universe
from qdialect.opt.options import NestedSpec, PassSpec
from qdialect.opt.tool_error import TOOL, ToolError, did_you_mean
from qdialect.support.memory import registered_cache
from qdialect.text.messages import CommandLineContext, PluginError
from qdialect.text.syntax import syntax_of, syntax_of_op

if TYPE_CHECKING:
    from dataclasses import Field

    from xdsl.passes import ModulePass
    from xdsl.universe import Universe
    from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, ParameterListType, ParameterType
    from xdsl.utils.target import Target

    from qdialect.folding.fold_plan import FoldPlan
    from qdialect.folding.report import PassReport

ConvertibleT = TypeVar("ConvertibleT", bound="ArgSpecConvertible")
ClassT = TypeVar("ClassT")


@registered_cache
@cache
def _plugins() -> tuple[Universe, ...]:
    """The xDSL plug-ins of other packages. One that does not load is skipped with a warning."""
    # Only `--version` and names unknown to xDSL search plug-ins (40 ms).
    from importlib.metadata import entry_points

    # Only names unknown to xDSL are searched in plug-ins.
    from xdsl.universe import Universe

    universes: list[Universe] = []
    for plugin in entry_points(group="xdsl.universe"):
        try:
            loaded = plugin.load()
        except Exception as error:
            sys.stderr.write(
                f"{TOOL}: warning: plug-in '{plugin.name}' does not load: {describe(error)}\n"
            )
        else:
            if isinstance(loaded, Universe):
                universes.append(loaded)
    return tuple(universes)


_LACKING = ("chlo", "index", "shape", "stablehlo")
"""The dialects that xDSL lacks."""


@registered_cache
@cache
def _dialects() -> dict[str, Callable[[], Dialect]]:
    lacking = {name: partial(Dialect, name, [], []) for name in _LACKING}
    known = lacking | dialects.get_all_dialects()
    return {
        **{name: partial(_as_mlir_has_it, name, factory) for name, factory in known.items()},
        **universe.get_all_dialects(),
    }


def _as_mlir_has_it(name: str, factory: Callable[[], Dialect]) -> Dialect:
    """The dialect of xDSL, with the ops that it lacks. It is made when a text first names it."""
    return syntax_of(name).added_to(factory())


def _dialects_with_xdsl_ops() -> Iterator[tuple[str, Callable[[], Dialect]]]:
    known = dialects.get_all_dialects()
    for name, factory in _dialects().items():
        own = known.get(name, factory)
        yield name, factory if own is factory else partial(_with_ops_of, own, factory)


def _with_ops_of(own: Callable[[], Dialect], factory: Callable[[], Dialect]) -> Dialect:
    dialect = own()
    return rebuilt(factory(), dialect.operations, dialect.attributes)


@registered_cache
@cache
def _passes() -> dict[str, Callable[[], type[ModulePass]]]:
    # Only a command line with passes needs those of xDSL.
    from xdsl import transforms

    return {**transforms.get_all_passes(), **universe.get_all_passes()}


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """All passes by name, including those of plug-ins."""
    plugged = (plugin.all_passes for plugin in _plugins())
    return {name: factory for passes in plugged for name, factory in passes.items()} | _passes()


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """All targets by name, including those of plug-ins."""
    # Only `--target` and `--help` need targets.
    from xdsl import targets

    plugged = (plugin.all_targets for plugin in _plugins())
    own = targets.get_all_targets()
    return {name: factory for targets in plugged for name, factory in targets.items()} | own


def find_pass(name: str) -> Callable[[], type[ModulePass]] | None:
    """The pass of that name: xDSL's or qdialect's, or else a plug-in's."""
    return _passes().get(name) or next(
        (plugin.all_passes[name] for plugin in _plugins() if name in plugin.all_passes),
        None,
    )


class ToolContext(CommandLineContext, FoldReportListener, WarningListener):
    """
    A context with all dialects, which searches unknown ones in plug-ins.

    It collects the reports, the warnings and the plans of passes.

    Resources belong to the context; in xDSL, all modules of a process share them.

    Threads may share it to read, fold and print modules of their own: names are found by one thread
    at a time, since a dialect is loaded when it is first named.
    """

    def __init__(self, allow_unregistered: bool = False, *, has_xdsl_ops: bool = False) -> None:
        """
        Make a context of all dialects.

        With `has_xdsl_ops`, the ops that xDSL has are xDSL's own classes, and verified as in xDSL.
        """
        super().__init__(allow_unregistered)
        self.fold_reports: list[PassReport] = []
        self.warnings: list[tuple[Operation, str]] = []
        self.fold_plans: list[FoldPlan] = []
        self._unregistered: dict[tuple[object, str], Any] = {}
        names: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(Context)}
        names["allow_unregistered"] = False
        self._registered = Context(**names)
        """The same dialects and names, without those that are not registered."""
        self._finding = RLock()
        for name, factory in _dialects_with_xdsl_ops() if has_xdsl_ops else _dialects().items():
            self.register_dialect(name, fresh_builtin if name == "builtin" else factory)

    @override
    def take_fold_report(self, report: PassReport) -> None:
        self.fold_reports.append(report)

    @override
    def take_warning(self, op: Operation, message: str) -> None:
        self.warnings.append((op, message))

    def take_fold_plan(self, plan: FoldPlan) -> None:
        self.fold_plans.append(plan)

    @override
    def get_optional_op(
        self, name: str, *, dialect_stack: Sequence[str] = ()
    ) -> type[Operation] | None:
        find = self._registered.get_optional_op

        def find_class() -> type[Operation] | None:
            return find(name, dialect_stack=dialect_stack) or self._lacking_op(name, dialect_stack)

        return self._find(name, find_class, _unregistered_op)

    def _lacking_op(self, name: str, dialect_stack: Sequence[str]) -> type[Operation] | None:
        """The class of an op of MLIR that xDSL lacks."""
        if "." not in name and dialect_stack:
            name = f"{dialect_stack[-1]}.{name}"
        if not is_registered(self, name.partition(".")[0]):
            return None
        return syntax_of_op(name).find_op(name)

    @override
    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        return self._find(
            name, partial(self._registered.get_optional_type, name), _unregistered_type
        )

    @override
    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        return self._find(
            name, partial(self._registered.get_optional_attr, name), _unregistered_attr
        )

    def _find(
        self, name: str, find: Callable[[], ClassT | None], make: Callable[[str], ClassT]
    ) -> ClassT | None:
        """
        The class of a registered name, or else an unregistered one, where these are allowed.

        xDSL makes an unregistered class for each context, which takes milliseconds.
        """
        with self._finding:
            self._look_for_dialect(name)
            registered = find()
            if registered is not None or not self.allow_unregistered:
                return registered
            # Kept here, since two classes of one name would make unequal types, and caches may
            # evict.
            key = (make, name)
            if key not in self._unregistered:
                self._unregistered[key] = make(name)
            return self._unregistered[key]

    @override
    def get_optional_dialect(self, name: str) -> Dialect | None:
        with self._finding:
            return self._registered.get_optional_dialect(name)

    def _look_for_dialect(self, name: str) -> None:
        dialect, dot, _ = name.partition(".")
        if not dot or is_registered(self, dialect):
            return
        for plugin in _plugins():
            if dialect in plugin.all_dialects:
                factory = plugin.all_dialects[dialect]
                self.register_dialect(dialect, partial(_of_plugin, dialect, factory))
                return


def _of_plugin(name: str, factory: Callable[[], Dialect]) -> Dialect:
    """The dialect of a plug-in. Raises PluginError."""
    try:
        return factory()
    except Exception as error:
        reason = f"{describe(error)}{place_of(error)}"
        raise PluginError(f"the dialect '{name}' of a plug-in does not load: {reason}") from error


@registered_cache
@lru_cache(maxsize=1024)
def _unregistered_op(name: str) -> type[Operation]:
    return UnregisteredOp.with_name(name)


@registered_cache
@lru_cache(maxsize=1024)
def _unregistered_type(name: str) -> type[TypeAttribute]:
    return cast("type[TypeAttribute]", UnregisteredAttr.with_name_and_type(name, is_type=True))


@registered_cache
@lru_cache(maxsize=1024)
def _unregistered_attr(name: str) -> type[Attribute]:
    return UnregisteredAttr.with_name_and_type(name, is_type=False)


class NestedPipeline(NamedTuple):
    """
    Runs passes on each op of one name directly in a module, one after another.

    As in MLIR, the passes see nothing of the module but the op:
    https://mlir.llvm.org/docs/PassManagement/#oppassmanager. Their result replaces the op. A nested
    pipeline runs on ops directly in those of the outer pipeline.
    """

    anchor: str
    """The name of the ops."""

    passes: tuple[ModulePass | NestedPipeline, ...]

    @property
    def name(self) -> str:
        """The name in messages."""
        return "nested-pipeline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises the exceptions of the passes, and OpErrors if an op uses values from around it."""
        self._apply_in(ctx, op)

    def _apply_in(self, ctx: Context, op: Operation) -> None:
        ops = (inner for region in op.regions for block in region.blocks for inner in block.ops)
        anchored = [inner for inner in ops if op_name(inner) == self.anchor]
        if not anchored:
            self._warn(ctx, op)
        for inner in anchored:
            if not inner.has_trait(IsolatedFromAbove, value_if_unregistered=True):
                raise OpErrors.of(inner, "is not isolated from above: no pass can run on it alone")
            self._apply_alone(ctx, inner)

    def _warn(self, ctx: Context, op: Operation) -> None:
        """Warn of a name that is probably misspelled; a module need not have ops of each name."""
        if not isinstance(ctx, WarningListener):
            return
        names = {op_name(inner) for inner in op.walk() if inner is not op}
        if self.anchor in names:
            reason = f"it is not directly in '{op_name(op)}', so its pipeline does nothing"
            ctx.take_warning(op, f"operation '{self.anchor}' is deeper in the module: {reason}")
            return
        known = ctx.get_optional_op(self.anchor)
        if known is None or issubclass(known, UnregisteredOp):
            hint = did_you_mean(self.anchor, names)
            ctx.take_warning(op, f"no operation '{self.anchor}' in the module{hint}")

    def _apply_alone(self, ctx: Context, op: Operation) -> None:
        block, following = op.parent_block(), op.next_op
        assert block is not None
        op.detach()
        alone = ModuleOp([op])
        try:
            for module_pass in self.passes:
                if isinstance(module_pass, NestedPipeline):
                    for inner in list(alone.body.block.ops):
                        module_pass._apply_in(ctx, inner)
                else:
                    module_pass.apply(ctx, alone)
        finally:
            for inner in list(alone.body.block.ops):
                inner.detach()
                if following is None:
                    block.add_op(inner)
                else:
                    block.insert_op_before(inner, following)


def make_pass(spec: PassSpec) -> ModulePass | NestedPipeline:
    """The pass of that name, with its options, or a pipeline of them. Raises ToolError."""
    if isinstance(spec, NestedSpec):
        return NestedPipeline(spec.anchor, tuple(map(make_pass, spec.passes)))
    factory = find_pass(spec.name)
    if factory is None:
        raise ToolError(f"there is no pass '{spec.name}'")
    return _make("pass", factory, spec)


def make_target(spec: ArgSpec | None) -> Target | None:
    """The target; None for MLIR text. Raises ToolError."""
    if spec is None or (spec.name == "mlir" and not spec.parameters):
        return None
    targets = get_all_targets()
    if spec.name not in targets:
        hint = did_you_mean(spec.name, targets)
        raise ToolError(f"there is no target '{spec.name}'{hint}")
    return _make("target", targets[spec.name], spec)


def _make(kind: str, factory: Callable[[], type[ConvertibleT]], spec: ArgSpec) -> ConvertibleT:
    """The pass or target of a name and options. Raises ToolError."""
    try:
        cls = factory()
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}' does not load: {describe(error)}") from error
    options = {option_name(field): field for field in fields(cls) if field.init}
    values: dict[str, ParameterListType] = {}
    for given, value in spec.parameters.items():
        name = given.replace("_", "-")
        if name not in options:
            raise ToolError(
                f"{kind} '{spec.name}' has no option '{given}' "
                f"(it has: {', '.join(options) or 'none'})"
            )
        values[name] = _option_value(f"{kind} '{spec.name}': {name}", options[name], value)
    try:
        return cls.from_spec(type(spec)(spec.name, values))
    except Exception as error:
        raise ToolError(f"{kind} '{spec.name}': {first_line(error)}") from error


def option_name(field: Field[object]) -> str:
    """The name of the option that a field of a pass or target is, as it is typed."""
    # A field whose option is a Python keyword, such as `from`, ends in an underscore.
    return field.name.rstrip("_").replace("_", "-")


_OPTION_TYPES: dict[str, tuple[type[ParameterType] | UnionType, str]] = {
    "int": (int, "an integer"),
    "int|float": (int | float, "a number"),
    "float": (float, "a number with a point"),
    "bool": (bool, "true or false"),
    "str": (str, "text: put it in quotes"),
}
"""The types of options, each with its Python type and its name in messages."""


def _option_value(option: str, field: Field[object], value: ParameterListType) -> ParameterListType:
    """
    The value of an option; a flag without a value is true, as in mlir-opt.

    Raises ToolError if the value is of another type than the option. The metadata of a field may
    describe the value under the key `is`, such as "a number of bytes".
    """
    name = field.type if isinstance(field.type, str) else type_repr(field.type)
    name, rest = name.strip("'").replace(" ", ""), ""
    if name not in _OPTION_TYPES:
        name, _, rest = name.partition("|")
    wrong = [item for item in value if not isinstance(item, str)]
    if name == "tuple[str,...]" and wrong:
        raise ToolError(f"{option} must be words: put them in quotes, but has '{wrong[0]}'")
    if name == "bool" and not value:
        return (True,)
    if name not in _OPTION_TYPES or rest not in ("", "None") or (rest and not value):
        # xDSL checks lists, and an optional option may have no value.
        return value
    type, kind = _OPTION_TYPES[name]
    # In Python, a bool is an int.
    if (
        len(value) == 1
        and isinstance(value[0], type)
        and isinstance(value[0], bool) == (type is bool)
    ):
        return value
    kind = field.metadata.get("is", kind)
    if not value:
        raise ToolError(f"{option} has no value: write {option}=VALUE")
    raise ToolError(f"{option} must be {kind}, but is '{','.join(map(str, value))}'")
