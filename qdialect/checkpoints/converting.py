"""
Matrices of checkpoints written in another layout: no code and no scale is computed anew.

What a layout cannot hold is refused before anything is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from qdialect.checkpoints.detection import CONFIG, VERSIONS, hints_of
from qdialect.checkpoints.importing import OFFSET_REASON
from qdialect.checkpoints.layouts import PLAIN, STATE, Layout, Numbers
from qdialect.checkpoints.matrices import Matrix, RefusedError
from qdialect.checkpoints.stored import MatrixReader, MatrixWriter, QuantizedModule
from qdialect.support.lazy_numpy import NDArray, np
from qdialect.weights.copying import Descriptors, copy_view
from qdialect.weights.strided_views import StridedView
from qdialect.weights.tensor_files import (
    DTYPES,
    FileWriter,
    NewTensor,
    TensorInFile,
    WeightsError,
)

INDEX: Final = "model.safetensors.index.json"


@dataclass(frozen=True)
class Converted:
    """The content of new tensors: a matrix in another layout."""

    module: QuantizedModule
    target: Layout
    dtype: str = ""
    """That of scales."""

    @property
    def block(self) -> tuple[int, int]:
        """The rows and columns of a block."""
        return self.target.block[0], self.target.block[1] or self.module.block[1]

    def sources(self) -> Iterator[TensorInFile]:
        """The tensors of the matrix."""
        yield from self.module.tensors.values()

    def _new(self) -> QuantizedModule:
        """The matrix of the layout, with the tensors that are not new."""
        module = self.module
        return QuantizedModule(module.name, self.target, self._carried, module.shape, self.block)

    def tensors(self, key: str) -> Sequence[NewTensor]:
        """The tensors of the layout."""
        (rows, columns), target = self.module.matrix, self.target
        if target.record:
            nbytes = columns // target.elements * sum(size for _, size in target.record)
            return [NewTensor(key, "U8", (rows, nbytes))]
        stored = self._new().stored(self.dtype)
        new = [NewTensor(key + plane.name, plane.dtype, shape) for plane, shape in stored]
        carried = {name: tensor.entry for name, tensor in self._carried.items()}
        new += [NewTensor(key + name, own.dtype, own.shape) for name, own in carried.items()]
        places = self._places.items()
        return [*new, *(NewTensor(key + end, f"I{8 * n.itemsize}", n.shape) for end, n in places)]

    @property
    def _places(self) -> Mapping[str, NDArray[Any]]:
        """The block of each column, and the numbers of rows and columns, of layouts with them."""
        (rows, columns), order, target = self.module.matrix, self.module.order, self.target
        places: dict[str, NDArray[Any]] = {}
        if target.groups and (order is not None or not target.groups.endswith("?")):
            groups = np.empty(columns, np.int32)
            even = np.arange(columns)
            groups[even if order is None else order] = even // self.block[1]
            places[target.groups.rstrip("?")] = groups
        if target.shape and not target.is_flat:
            places[target.shape] = np.array([rows, columns], np.int64)
        return places

    @property
    def _carried(self) -> Mapping[str, TensorInFile]:
        """What an import has carried for the layout."""
        tensors, names = self.module.tensors, [*self.target.outer]
        if self.target.is_flat:
            names += [name for name in tensors if name.startswith(STATE)]
        is_imported = self.module.layout.name == PLAIN
        return {name: tensors[name] for name in names if name in tensors and is_imported}

    @property
    def _dtypes(self) -> Sequence[str]:
        """Those that scales may have: that of the source, if the layout may have it, or any."""
        module, target = self.module, self.target
        dtypes, (own, *others) = target.scale[0].dtypes, module.layout.scale
        if target.offset and not target.record:
            # Each step is rounded to it.
            return (module.floats,)
        if own.dtypes and not (others or module.layout.record or module.layout.name == PLAIN):
            stored = module.tensors[own.name].entry.dtype
            return (stored,) if stored in dtypes else dtypes[-1:]
        return dtypes or ("",)

    def checked(self, files: Descriptors, max_memory: int) -> Converted:
        """
        The same with the first dtype that holds all scales.

        Reads the matrix, and raises RefusedError if the layout cannot hold it.
        """
        module, target, carried = self.module, self.target, self._carried
        (rows, columns), plane = module.matrix, target.codes[0]
        if target.refused is not None:
            raise RefusedError(*target.refused)
        if module.order is not None and not target.groups:
            raise RefusedError("act-order", f"'{target.name}' has the columns in order")
        if (plane.is_along_rows and rows * plane.bits % plane.word) or rows % plane.fan:
            raise RefusedError("tail", f"{rows} rows are no whole words")
        if target.record and columns % target.elements:
            raise RefusedError("tail", f"{columns} columns are no records of {target.elements}")
        if len(carried) != len(target.outer) + target.is_flat:
            names = " and ".join(f"'{name}'" for name in target.outer)
            reason = f"{names} are only of weights that were imported from '{target.name}'"
            raise RefusedError("scale" if len(target.scale) > 1 else "missing", reason)
        dtypes_of = {part.name: part.dtypes for part in (*target.scale, *target.offset)}
        for name, tensor in carried.items():
            if tensor.entry.dtype not in dtypes_of.get(name, ("F32", "U8")):
                reason = f"'{name}' is {DTYPES[tensor.entry.dtype].type}"
                raise RefusedError("storage", reason)
        if target.record and target.offset and module.floats != "F32":
            raise RefusedError("offset", f"values are sums of {DTYPES[module.floats].type}")
        reader = MatrixReader(module, files, is_ordered=False)
        dtypes, error = [*self._dtypes], RefusedError("scale", "there are no rows")
        with_codes = len(target.scale) > 1 or isinstance(target.table, tuple)
        for band in reader.bands(max_memory, self.block[0]):
            matrix = reader.read(band, with_codes=with_codes)
            for dtype in tuple(dtypes):
                new = MatrixWriter(self._new(), files, dtype)
                try:
                    new.fields_of(self._encoded(matrix, new), band)
                except RefusedError as reason:
                    dtypes.remove(dtype)
                    error = reason
            if not dtypes:
                raise error
        return replace(self, dtype=dtypes[0])

    def write(self, key: str, writer: FileWriter, files: Descriptors, max_memory: int) -> None:
        """
        Write the tensors, and read them again.

        Raises OSError, and WeightsError for a matrix that is refused.
        """
        module, target, carried = self.module, self.target, self._carried
        for end, tensor in carried.items() if not target.record else ():
            copy_view(
                StridedView.of(tensor, tensor.entry.shape), key + end, writer, files, max_memory
            )
        again, reader = Descriptors(), MatrixReader(module, files, is_ordered=False)
        new = MatrixWriter(self._new(), again, self.dtype, (writer, key))
        try:
            # Codes are not unpacked then.
            is_stream = target.codes[0].is_stream and new.is_stream and reader.is_stream
            is_stream &= reader.storage.signed == new.storage.signed and len(target.scale) == 1
            zero = None if isinstance(target.zero, Numbers) else target.zero or 0
            multiple = math.lcm(self.block[0], target.codes[0].fan)
            for band in reader.bands(max_memory, multiple, taken=3 if is_stream else 8):
                matrix = reader.read(band, with_codes=not is_stream)
                stream = reader.stream(band) if is_stream else None
                if is_stream and zero is not None and (matrix.zeros != zero).any():
                    matrix, stream = reader.read(band), None
                new.write(band, self._encoded(matrix, new), stream)
        except RefusedError as error:
            raise WeightsError(f"{module.name}: {target.name}: {error}") from None
        finally:
            again.close()
        for end, numbers in self._places.items():
            writer.write(key + end, numbers.reshape(-1).view(np.uint8).data, 0)

    def _encoded(self, matrix: Matrix, new: MatrixReader) -> Matrix:
        """The same with the codes and blocks of the layout. Raises RefusedError."""
        target, storage, wanted = self.target, matrix.storage, new.storage
        if matrix.offsets is not None and not target.offset:
            raise RefusedError("offset", OFFSET_REASON)
        if matrix.offsets is None and target.offset:
            raise RefusedError("offset", f"'{target.name}' has offsets, and values have none")
        if storage.width != wanted.width:
            raise RefusedError("storage", f"codes are {storage.name}, of {storage.width} bits")
        matrix = matrix.with_sign(is_signed=wanted.signed)
        if matrix.storage != wanted:
            raise RefusedError("table", f"codes are numbers of {storage.name}")
        matrix.check_finite()
        matrix = matrix.reblocked(self.block, self.module.matrix)
        return matrix if isinstance(target.zero, Numbers) else matrix.with_zero(target.zero or 0)


def write_configuration(
    folder: Path,
    source: Path,
    target: str,
    section: Mapping[str, object] | None,
    names: Mapping[str, str],
) -> None:
    """
    Write the index of a folder, for each tensor its file, and the configuration of a model.

    `source` is the configuration from before, which there may not be. What it says of quantization
    is replaced by `section`; None keeps it, and an empty one if it is of the layout `target`.
    Raises OSError and FileError.
    """
    index = {"metadata": {}, "weight_map": dict(sorted(names.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    if not source.exists():
        return
    config: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    if section:
        config["quantization_config"] = section
    elif section is not None and target not in (hints_of(source).allowed or ()):
        config.pop("quantization_config", None)
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def section_of(matrices: Sequence[Converted]) -> Mapping[str, object]:
    """
    What a configuration says of matrices of a layout; nothing if no library has a word for it.

    Raises RefusedError for blocks of different lengths, for which it has no words.
    """
    target, symmetric = matrices[0].target, not isinstance(matrices[0].target.zero, Numbers)
    columns = {matrix.block[1] for matrix in matrices}
    if all(matrix.block[1] == matrix.module.matrix[1] for matrix in matrices):
        columns = {-1}
    has_order = any(matrix.module.order is not None for matrix in matrices)
    number = {"bits": target.bits, "group_size": min(columns), "sym": symmetric}
    section: Mapping[str, object] = {}
    match target.name:
        case "gptq" | "gptq_v2" as form:
            section = {"quant_method": "gptq", "checkpoint_format": form, "desc_act": has_order}
            section = {**section, **number}
        case "awq" | "awq_gemv" | "awq_gemv_fast" as form:
            version = form.removeprefix("awq_") if form != "awq" else "gemm"
            section = {"quant_method": "awq", "version": version, "zero_point": True, **number}
        case form if form.startswith("quark"):
            name = form.removesuffix("-symmetric")
            dtype = next(word for word, version in VERSIONS.items() if version == name)
            own = {"dtype": dtype, "group_size": min(columns), "symmetric": symmetric}
            own |= {"qscheme": "per_group", "scale_format": "e8m0" if "mx" in form else None}
            section = {"quant_method": "quark", "global_quant_config": {"weight": own}}
        case "gpt-oss":
            section = {"quant_method": "mxfp4"}
        case "fp8-blocks":
            section = {"quant_method": "fp8", "weight_block_size": [*target.block]}
        case form if form.startswith(("pack-", "int-", "mxfp4-")):
            is_row = columns == {-1}
            weights = {
                "num_bits": target.bits,
                "type": "float" if target.storage else "int",
                "symmetric": symmetric,
                "strategy": "channel" if is_row else "group",
                "group_size": None if is_row else min(columns),
                **({"actorder": "group"} if has_order else {}),
            }
            section = {
                "quant_method": "compressed-tensors",
                "format": form.removesuffix("-symmetric"),
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
            }
        case _:
            pass
    if section and len(columns) > 1:
        raise RefusedError("block", f"matrices have blocks of {sorted(columns)} columns")
    return section
