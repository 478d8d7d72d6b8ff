"""The passes that change how quantized values are stored, or computed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

from qdialect.algebra.parameters import StorageFormat
from qdialect.folding import send_report
from qdialect.ptq.shifting import MAX_WIDTH, StorageShift, shift_storage


@dataclass(frozen=True)
class ShiftStoragePass(ModulePass):
    """
    Store quantized values as integers of the other signedness: `from=i8 to=u8`.

    Stored integers, zero points and storage bounds move by half of the codes, in all types and
    constants. Values do not change. Ops that read stored integers are errors. Other storages are
    not changed.

    Example: `qdialect-opt --shift-storage="from=i8 to=u8" examples/tiny.mlir`.
    """

    name = "shift-storage"

    from_: str
    """The storage before: `i8`, `u8`, `i4`, `u4`, `i16`, `u16`, ..."""

    to: str
    """The storage after, of the same width."""

    def __post_init__(self) -> None:
        """Raise ValueError unless the storages differ in signedness only."""
        self._shift()

    @classmethod
    @override
    def from_spec(cls, spec: ArgSpec) -> Self:
        """Read options; `from` is a keyword of Python, so its field has another name."""
        if "from" not in spec.parameters:
            raise ValueError(f'{cls.name} requires argument "from"')
        return super().from_spec(_renamed(spec, "from", "from_"))

    @override
    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """The options as in the text of a pipeline."""
        return _renamed(super().spec(include_default=include_default), "from_", "from")

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        report = shift_storage(op, ctx, self._shift())
        send_report(ctx, report)

    def _shift(self) -> StorageShift:
        source, result = _format("from", self.from_), _format("to", self.to)
        if source.width != result.width or source.signed == result.signed:
            raise ValueError(
                "'from' and 'to' must have the same width and different signedness, not "
                f"{self.from_} and {self.to}"
            )
        return StorageShift(source)


def _renamed(spec: ArgSpec, old: str, new: str) -> ArgSpec:
    parameters = {new if key == old else key: value for key, value in spec.parameters.items()}
    return ArgSpec(spec.name, parameters)


def _format(option: str, text: str) -> StorageFormat:
    storage = re.fullmatch("([iu])([0-9]{1,2})", text)
    if storage is None or not 1 < int(storage[2]) <= MAX_WIDTH:
        raise ValueError(
            f"'{option}' must be a storage of 2 to {MAX_WIDTH} bits, such as i8 or u4, not '{text}'"
        )
    return StorageFormat(int(storage[2]), signed=storage[1] == "i")


@dataclass(frozen=True)
class FakeQuantizePass(ModulePass):
    """
    Make ops that compute on quantized values compute on floats, between `dcast` and `qcast`.

    Ops that only move values, casts and constants stay on quantized types. Ops that cannot compute
    on floats are kept, and reported as remarks.

    Example: `qdialect-opt --fake-quantize quantized.mlir`.
    """

    name = "fake-quantize"

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # It imports what runs ops on arrays, which other passes do not need.
        from qdialect.ptq.fake_quantization import fake_quantize

        report = fake_quantize(op, ctx)
        send_report(ctx, report)
