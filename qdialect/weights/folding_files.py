"""Carrying out the plans of folds on files: each planned constant becomes a tensor of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from qdialect.algebra.movement import Movement, MovementError, Shape
from qdialect.algebra.padding import Pad
from qdialect.folding.fold_plan import FoldPlan, PlannedSource
from qdialect.ir.value_types import shape_of
from qdialect.weights.copying import Descriptors, copy_view
from qdialect.weights.manifest import Manifest, tensor_of_type
from qdialect.weights.strided_views import (
    FileView,
    JoinedView,
    NeedsCopyError,
    StridedView,
    parts_of,
)
from qdialect.weights.tensor_files import (
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
    part_of,
    read_header,
    writing,
)


@dataclass(frozen=True)
class Scratch:
    """A tensor that is written to a file first, and moved from there."""

    view: FileView
    dtype: str


def planned_views(plans: Sequence[FoldPlan], manifest: Manifest) -> dict[str, FileView]:
    """
    The new tensors of plans by name, as movements of tensors of files; nothing is read.

    A plan may move what one before it has written. Raises WeightsError for elements that are in no
    file, and for movements that the shapes of the files do not allow.
    """
    views: dict[str, FileView] = {}
    for plan in plans:
        moved: dict[str, FileView] = {}
        for source in plan.sources:
            if source.resource is not None:
                moved[source.name] = views.get(source.resource) or _whole(manifest, source)
        for step in plan.steps:
            if all(name in moved for name in step.operands):
                operands = [moved[name] for name in step.operands]
                moved[step.name] = _moved(step.name, step.movements, operands)
        for constant in plan.constants:
            if (key := constant.resource) is None:
                continue
            if constant.name not in moved:
                raise WeightsError(f"{constant.name}: its elements are in no file of the manifest")
            shape = shape_of(constant.types[0]) or ()
            view = moved[constant.name]
            views[key] = view if view.shape == shape else _reshaped(view, shape)
    if not views:
        raise WeightsError("the plan writes no tensor of a file; was it made with --weights?")
    return views


def _whole(manifest: Manifest, source: PlannedSource) -> FileView:
    tensor = tensor_of_type(manifest[source.resource or ""], source.type)
    return StridedView.of(tensor, tensor.entry.shape)


def _moved(name: str, movements: Sequence[Movement], operands: Sequence[FileView]) -> FileView:
    """Views after the movements of a step, the first of which takes all."""
    for movement in movements:
        if isinstance(movement, Pad):
            raise WeightsError(f"{name}: padding is not part of a plan")
        try:
            movement.result_shape(*(operand.shape for operand in operands))
            try:
                operands = [movement(*operands)]
            except NeedsCopyError:
                operands = [movement(*map(_copied, operands))]
        except NeedsCopyError:
            raise WeightsError(f"{name}: {movement} takes too many runs of positions") from None
        except MovementError as error:
            raise WeightsError(f"{name}: {error}") from None
    (view,) = operands
    return view


def _reshaped(view: FileView, shape: Shape) -> FileView:
    try:
        return view.reshape(shape)
    except NeedsCopyError:
        return _copied(view).reshape(shape)


def _copied(view: FileView) -> FileView:
    return StridedView.of(Scratch(view, dtype_of(view)), view.shape)


def dtype_of(view: FileView) -> str:
    """The dtype of a view. Raises WeightsError if its parts have several."""
    dtypes = {
        part.tensor.dtype if isinstance(part.tensor, Scratch) else part.tensor.entry.dtype
        for part in parts_of(view)[0]
    }
    if len(dtypes) > 1:
        raise WeightsError(f"tensors of {' and '.join(sorted(dtypes))} are joined")
    return dtypes.pop()


@dataclass(frozen=True)
class Moved:
    """The content of a new tensor: elements of others."""

    view: FileView

    @classmethod
    def of(cls, tensor: TensorInFile) -> Moved:
        """All elements of a tensor, where they are."""
        return cls(StridedView.of(tensor, tensor.entry.shape))

    def sources(self) -> Iterator[TensorInFile]:
        """The tensors of files that the view is made of."""
        pending = [*parts_of(self.view)[0]]
        while pending:
            tensor = pending.pop().tensor
            if isinstance(tensor, Scratch):
                pending += parts_of(tensor.view)[0]
            else:
                yield tensor

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """One tensor, whose name is the key."""
        return (NewTensor(key, dtype_of(self.view), self.view.shape),)

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """Write it. Raises OSError and WeightsError."""
        with ExitStack() as scratch:
            view = _without_scratch(self.view, writer.path, files, max_memory, scratch)
            copy_view(view, key, writer, files, max_memory)


def _without_scratch(
    view: FileView, path: Path, files: Descriptors, max_memory: int, stack: ExitStack
) -> FileView:
    """The view of files, after those tensors are written that are moved from files of their own."""
    parts = list[StridedView]()
    for part in parts_of(view)[0]:
        scratch = part.tensor
        if not isinstance(scratch, Scratch):
            parts.append(part)
            continue
        inner = _without_scratch(scratch.view, path, files, max_memory, stack)
        place = part_of(path)
        stack.callback(place.unlink, missing_ok=True)
        with writing(place, [NewTensor("scratch", scratch.dtype, scratch.view.shape)]) as writer:
            copy_view(inner, "scratch", writer, files, max_memory)
            writer.finish()
        entry = read_header(place)["scratch"]
        entry = entry._replace(dtype=scratch.dtype, shape=scratch.view.shape)
        tensor = TensorInFile(str(place), entry)
        parts.append(replace(part, tensor=tensor))
    return replace(view, parts=tuple(parts)) if isinstance(view, JoinedView) else parts[0]
