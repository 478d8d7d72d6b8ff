"""
Models of ops by name: for all contexts, or for those that load a dialect with models.

A kind of model is a subclass of `Models`, an interface of dialects. One instance of it holds the
models for all contexts. Models of a context's own dialects take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar, Final, Generic, TypeVar, cast

from xdsl.context import Context
from xdsl.dialect_interfaces import DialectInterface
from xdsl.ir import Dialect

from qdialect.ir.dialect_files import import_dialect_file

ModelT = TypeVar("ModelT")


class Models(DialectInterface):
    """Models of the ops of one dialect, as one of its interfaces."""


ModelsT = TypeVar("ModelsT", bound=Models)


class _LoadedModels:
    """The models that some dialects have, by kind and by the name of the dialect."""

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self.found: dict[type[Models], Mapping[str, Models]] = {}

    def find(self, kind: type[ModelsT]) -> Mapping[str, ModelsT]:
        found = ((each.name, each.get_interface(kind)) for each in self._dialects)
        of_kind = {name: models for name, models in found if models is not None}
        self.found[kind] = of_kind
        return of_kind


_NO_MODELS: Final = _LoadedModels(())
_IN_USE: Final[ContextVar[_LoadedModels]] = ContextVar("qdialect.models", default=_NO_MODELS)


@contextmanager
def models_of(context: Context | None) -> Generator[None]:
    """Within the block, use the models of the dialects that `context` has loaded."""
    token = _IN_USE.set(_LoadedModels(() if context is None else context.loaded_dialects))
    try:
        yield
    finally:
        _IN_USE.reset(token)


def models_in_use(kind: type[ModelsT]) -> Mapping[str, ModelsT]:
    """The models of one kind in the active context, by the name of the dialect."""
    loaded = _IN_USE.get()
    # Cached, since models are looked up several times for every op.
    found = loaded.found.get(kind)
    return loaded.find(kind) if found is None else cast("Mapping[str, ModelsT]", found)


class OpModels(Models, Generic[ModelT]):
    """Models of a kind of which an op has at most one."""

    package: ClassVar[str]
    """The package with a file for each dialect whose models come with qdialect."""

    def __init__(self) -> None:
        self.by_name: dict[str, ModelT] = {}

    def add(self, names: Iterable[str], model: ModelT) -> None:
        """Set the model of ops of these names, and replace any earlier one."""
        self.by_name.update(dict.fromkeys(names, model))

    def register(self, *names: str) -> Callable[[ModelT], ModelT]:
        """Like `add`, as a decorator of the model."""

        def register(model: ModelT) -> ModelT:
            self.add(names, model)
            return model

        return register

    def find(self, name: str) -> ModelT | None:
        """The model of ops of that name in the active context, or else the one added here."""
        dialect = name.partition(".")[0]
        import_dialect_file(self.package, dialect)
        own = models_in_use(type(self)).get(dialect)
        found = None if own is None else own.by_name.get(name)
        return self.by_name.get(name) if found is None else found
