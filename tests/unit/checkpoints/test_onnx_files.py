"""Weights of models of ONNX have the values that ONNX Runtime multiplies with."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from numpy.typing import NDArray
from quantized_checkpoints import imported, stored_bytes

from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

ROWS, COLUMNS = 48, 128


def model(
    path: Path,
    *,
    bits: int = 4,
    block: int = 32,
    has_zeros: bool = True,
    scales: str = "f4",
    is_flat: bool = False,
    columns: int = COLUMNS,
    others: tuple[str, ...] = (),
    beside: bool = True,
    is_valid: bool = True,
) -> bytes:
    """Write a model of a product, with its tensors beside; returns one that has them inside."""
    onnx: Any = import_module("onnx")
    rng = np.random.default_rng(bits + block)
    groups = COLUMNS // block
    arrays = {
        "B": rng.integers(0, 256, (ROWS, groups, block * bits // 8), np.uint8),
        "scales": rng.uniform(0.01, 1, (ROWS, groups)).astype(scales),
    }
    if has_zeros:
        arrays["zeros"] = rng.integers(0, 256, (ROWS, -(-groups * bits // 8)), np.uint8)
    if is_flat:
        arrays |= {name: arrays[name].reshape(-1) for name in ("scales", "zeros")}
    helper, type = (
        onnx.helper,
        onnx.TensorProto.FLOAT if scales == "f4" else onnx.TensorProto.FLOAT16,
    )
    inputs = ["x", *arrays, *others]
    numbers = {"K": columns, "N": ROWS, "bits": bits if is_valid else 99, "block_size": block}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **numbers)
    arrays |= {name: np.arange(COLUMNS, dtype=np.int32) for name in others if name}
    x, y = (
        helper.make_tensor_value_info(name, type, [COLUMNS, length])
        for name, length in (("x", COLUMNS), ("y", ROWS))
    )
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y], constants)
    written = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    data = written.SerializeToString()
    where = {"location": f"{path.name}.data", "size_threshold": 0} if beside else {}
    onnx.save(written, str(path), save_as_external_data=beside, **where)
    return data


def multiplied(data: bytes, dtype: str = "f4") -> Array:
    """The weight that ONNX Runtime multiplies with."""
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.eye(COLUMNS, dtype=dtype)})[0].T


@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_values_are_those_of_the_engine(
    bits: int, block: int, has_zeros: bool, tmp_path: Path
) -> None:
    data = model(tmp_path / "m.onnx", bits=bits, block=block, has_zeros=has_zeros)
    values = imported(tmp_path / "m.onnx", tmp_path / "o")
    assert np.array_equal(values["B"], multiplied(data))


@needs("onnx", "onnxruntime")
def test_scales_of_f16_and_flat_lists(tmp_path: Path) -> None:
    """The engine rounds its results to f16."""
    data = model(tmp_path / "m.onnx", scales="f2", is_flat=True)
    values = imported(tmp_path / "m.onnx", tmp_path / "o")
    assert np.array_equal(values["B"].astype("f2"), multiplied(data, "f2"))


@needs("onnx", "onnxruntime")
def test_another_layout_has_the_same_codes(tmp_path: Path) -> None:
    """Written as MatMulNBits again, they are the bytes of the model."""
    model(tmp_path / "m.onnx")
    flags = ["--to=pack-quantized", "-o", str(tmp_path / "packed")]
    assert weights(["convert", str(tmp_path / "m.onnx"), *flags]) == 0
    flags = ["--to=matmulnbits", "-o", str(tmp_path / "again")]
    assert weights(["convert", str(tmp_path / "packed"), *flags]) == 0
    again = b"".join(data for _, (_, _, data) in sorted(stored_bytes(tmp_path / "again").items()))
    assert again == (tmp_path / "m.onnx.data").read_bytes()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "columns": ({"columns": 100}, "tail: 100 columns are no whole blocks of 32"),
    "order": ({"others": ("g_idx",)}, "act-order: columns are in the order of 'g_idx'"),
    "bits": ({"is_valid": False}, "storage: codes have 99 bits"),
    "inside": ({"beside": False}, "missing: '.B' has no elements in a file beside the model"),
}


@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how, reason = REFUSED[name]
    model(tmp_path / "m.onnx", **how)
    assert weights(["import", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o")]) == 1
    assert f"B: {reason}" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("name", ["cut", "outside", "text", "none"])
def test_files_that_are_not_as_they_say(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx: Any = import_module("onnx")
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    model(path)
    if name == "cut":
        data.write_bytes(data.read_bytes()[:-1])
    elif name == "outside":
        written = onnx.load(str(path), load_external_data=False)
        written.graph.initializer[0].external_data[0].value = "../other"
        path.write_bytes(written.SerializeToString())
    elif name == "text":
        path.write_bytes(b"\xff" * 9)
    else:
        path.unlink()
    reason = {
        "cut": "m.onnx.data: it is cut off: tensor 'zeros' ends at byte",
        "outside": "m.onnx: tensor 'B' is in '../other', which is not beside the model",
        "text": "m.onnx: it is no model of ONNX",
        "none": "No such file",
    }
    assert weights(["import", str(path), "-o", str(tmp_path / "o")]) == 1
    assert reason[name] in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
