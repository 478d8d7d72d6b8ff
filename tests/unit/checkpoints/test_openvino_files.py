"""Weights of models of OpenVINO have the values that its engine computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from installed import needs
from numpy.typing import NDArray
from quantized_checkpoints import imported, stored_bytes

from qdialect.checkpoints.detection import read_checkpoint
from qdialect.weights.weights_tool import main as weights

Array = NDArray[Any]

ROWS = 24


def constant(array: Array, type: str, name: str) -> Any:
    """A constant of an element type. Those of 4 bits are in the low bits of bytes of `array`."""
    openvino: Any = import_module("openvino")
    data = array
    if type in ("u4", "i4", "nf4"):
        flat = np.append(array.reshape(-1), np.zeros(array.size % 2, np.uint8)) & 15
        data = flat[::2] | flat[1::2] << 4
    tensor = openvino.Tensor(
        np.ascontiguousarray(data), list(array.shape), getattr(openvino.Type, type)
    )
    own = openvino.op.Constant(tensor, shared_memory=False)
    own.set_friendly_name(name)
    return own


def model(
    path: Path,
    type: str = "u4",
    *,
    groups: int = 4,
    width: int = 32,
    leading: tuple[int, ...] = (ROWS,),
    scales: str = "f16",
    zeros: str | None = "",
    scale_shape: tuple[int, ...] | None = None,
) -> Any:
    """
    Write the model of a weight in blocks; returns what openvino saved.

    Zero points have the type of the codes, or `zeros`; there are none of codes with a sign.
    """
    openvino: Any = import_module("openvino")
    ops: Any = import_module("openvino.opset13")
    rng = np.random.default_rng(groups + width)
    blocks = (groups, width) if groups > 1 else (width,)
    slots = (*leading, *blocks[:-1], 1)
    bits = int(type[-1])
    floats = getattr(openvino.Type, scales)
    codes = rng.integers(0, 1 << bits, (*leading, *blocks)).astype(np.uint8)
    value = ops.convert(constant(codes, type, "l.weight"), floats)
    if zeros == "":
        zeros = type if type[0] == "u" else None
    if zeros is not None:
        points = rng.integers(0, 1 << bits, slots).astype(np.uint8)
        value = ops.subtract(value, ops.convert(constant(points, zeros, "l.weight/zp"), floats))
    numbers = rng.normal(size=scale_shape or slots).astype(floats.to_dtype())
    value = ops.multiply(value, constant(numbers, scales, "l.weight/scale"))
    if groups > 1:
        value = ops.reshape(value, np.array([*leading, groups * width]), False)
    written = openvino.Model([ops.convert(value, np.float32)], [])
    openvino.save_model(written, str(path), compress_to_fp16=False)
    return written


def engine(written: Any) -> Array:
    """What the engine computes, in f32."""
    openvino: Any = import_module("openvino")
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.compile_model(written, "CPU", hint)([])[0]


FORMS: dict[str, dict[str, Any]] = {
    "u4 in blocks": {},
    "i4 in blocks": {"type": "i4"},
    "u8 of rows": {"type": "u8", "groups": 1},
    "i8 of rows": {"type": "i8", "groups": 1, "scales": "f32"},
    # Zero points of a row end within a byte.
    "u4 in an odd number of blocks": {"groups": 7, "width": 16},
    "u4 of rows": {"groups": 1, "width": 30},
    "u4 of experts": {"leading": (3, 5), "groups": 3},
    # Blocks are no axis that is joined.
    "u8 of experts": {"type": "u8", "leading": (3, 5), "groups": 1},
}


@needs("openvino")
@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_the_engine(form: str, tmp_path: Path) -> None:
    """Half of the scales are negative."""
    values = engine(model(tmp_path / "m.xml", **FORMS[form]))
    read = imported(tmp_path / "m.xml", tmp_path / "o", "--max-memory=1")["l.weight"]
    assert np.array_equal(read, values.reshape(read.shape))


@needs("openvino")
@pytest.mark.parametrize(
    "form", ["u4 in blocks", "i8 of rows", "u4 in an odd number of blocks", "i4 in blocks"]
)
def test_another_layout_has_the_same_codes(form: str, tmp_path: Path) -> None:
    """Written as OpenVINO has them again, they are the bytes of the model."""
    model(tmp_path / "m.xml", **FORMS[form])
    names = {"i4": "pack-quantized-symmetric", "i8": "int-quantized-symmetric"}
    to = names.get(form[:2], "matmulnbits")
    back = "openvino-symmetric" if form[0] == "i" else "openvino"
    flags = [f"--to={to}", "-o", str(tmp_path / "o"), "--max-memory=1"]
    assert weights(["convert", str(tmp_path / "m.xml"), *flags]) == 0
    flags = [f"--to={back}", "-o", str(tmp_path / "again"), f"--layout={to}", "--max-memory=1"]
    assert weights(["convert", str(tmp_path / "o"), *flags]) == 0
    data = (tmp_path / "m.bin").read_bytes()
    text = (tmp_path / "m.xml").read_text()
    for name, (_, _, own) in stored_bytes(tmp_path / "again").items():
        if name.startswith("l."):
            form = name.replace("zero_point", "zp")
            places = re.search(f'name="{form}".*?offset="(\\d+)" size="(\\d+)"', text, re.DOTALL)
            assert places is not None
            start, size = map(int, places.groups())
            assert own == data[start : start + size]
    # Also by way of plain rows, where scales are positive. Zero points do not tell a complement.
    imported(tmp_path / "m.xml", tmp_path / "i")
    manifest = str(tmp_path / "i" / "weights.json")
    assert weights(["convert", manifest, f"--to={back}", "-o", str(tmp_path / "p")]) == 0
    if back == "openvino-symmetric":
        assert stored_bytes(tmp_path / "p") == stored_bytes(tmp_path / "again")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "table": ({"type": "nf4", "zeros": None}, "storage: codes are nf4"),
    "floats": ({"zeros": "f16"}, "zero: codes are u4, and zero points f16"),
    "none": ({"zeros": None}, "zero: codes are u4, and zero points missing"),
    "signed": ({"type": "i4", "zeros": "i4"}, "zero: codes are i4, and zero points i4"),
    "shape": (
        {"scale_shape": (1,)},
        "block: '.weight/scale' is [1], and codes [24, 4, 32]",
    ),
    "tail": ({"groups": 1, "width": 31}, "tail: 31 columns of 4 bits are no whole bytes"),
    "f64": ({"scales": "f64"}, "storage: its tensors have other dtypes or shapes"),
}


@needs("openvino")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how, reason = REFUSED[name]
    model(tmp_path / "m.xml", **how)
    assert weights(["import", str(tmp_path / "m.xml"), "-o", str(tmp_path / "o")]) == 1
    assert f"l.weight: {reason}" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
    # What `--refused=keep` copies has all bytes.
    checkpoint = read_checkpoint(str(tmp_path / "m.xml"))
    entries = [tensor.entry for tensor in (*checkpoint.others.values(), *checkpoint.kept.values())]
    assert sum(entry.nbytes for entry in entries) == sum(sizes(tmp_path / "m.xml"))


def sizes(path: Path) -> list[int]:
    """The bytes of the constants of a model."""
    return [int(size) for size in re.findall(r'size="(\d+)"', path.read_text())]


def changed(old: str, new: str) -> Callable[[str], str]:
    """A change of the first text that matches a pattern."""

    def change(text: str) -> str:
        assert re.search(old, text) is not None
        return re.sub(old, new, text, count=1)

    return change


ENTITIES = '<!DOCTYPE net [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><net'

HOSTILE: dict[str, tuple[Callable[[str], str], str]] = {
    "offset": (
        changed('offset="0"', 'offset="99999999"'),
        "m.bin: it is cut off: tensor 'l.weight' ends at byte 100001535, the file at",
    ),
    "negative": (changed('offset="0"', 'offset="-8"'), "m.bin: it is cut off: tensor 'l.weight'"),
    "size": (
        changed('size="1536"', 'size="1535"'),
        "m.xml: tensor 'l.weight' has 1535 bytes, and [24, 4, 32] of U4 1536",
    ),
    "shape": (changed('shape="24, 4, 32"', 'shape="-24, -4, 32"'), "m.bin: it is cut off"),
    "number": (changed('offset="0"', 'offset="x"'), "m.xml: it is no model of OpenVINO: invalid"),
    "digits": (changed('offset="0"', f'offset="{"9" * 5000}"'), "m.xml: it is no model of"),
    "attribute": (changed("element_type", "other"), "m.xml: it is no model of OpenVINO: 'elem"),
    "entities": (changed("<net", ENTITIES), "m.xml: it is no model of OpenVINO: it has a document"),
    "text": (lambda text: text[:-9], "m.xml: it is no model of OpenVINO: unclosed token"),
    "names": (changed("l.weight/zp", "l.weight"), "m.xml: several constants have the same name"),
    "cycle": (changed('from-layer="0"', 'from-layer="1"'), "no quantized weight that matches"),
    "loop": (changed("<layers>", "<loop><layers>"), "m.xml: it is no model of OpenVINO: mismatch"),
}


@needs("openvino")
@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_not_as_they_say(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, reason = HOSTILE[name]
    model(tmp_path / "m.xml")
    (tmp_path / "m.xml").write_text(change((tmp_path / "m.xml").read_text()))
    assert weights(["import", str(tmp_path / "m.xml"), "-o", str(tmp_path / "o")]) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@needs("openvino")
def test_files_that_are_cut_or_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "m.xml", tmp_path / "m.bin"
    model(path)
    data.write_bytes(data.read_bytes()[:-1])
    assert weights(["info", str(path)]) == 1
    assert "m.bin: it is cut off: tensor '" in capsys.readouterr().err
    data.unlink()
    assert weights(["info", str(path)]) == 1
    assert "m.bin: No such file" in capsys.readouterr().err
    path.unlink()
    assert weights(["info", str(path)]) == 1
    assert "m.xml: No such file" in capsys.readouterr().err


@needs("openvino")
def test_weights_inside_of_a_loop_are_left(tmp_path: Path) -> None:
    """Its layers have numbers of their own, which are those of others outside."""
    path = tmp_path / "m.xml"
    values = engine(model(path))
    body = '<body><layers><layer id="0" name="b" type="Const"><data offset="9"/></layer></layers>'
    edges = '<edges><edge from-layer="2" from-port="0" to-layer="1" to-port="0"/></edges></body>'
    path.write_text(changed("</layer>", f"{body}{edges}</layer>")(path.read_text()))
    assert np.array_equal(imported(path, tmp_path / "o")["l.weight"], values)


@cache
def files() -> tuple[str, bytes]:
    """A model, which is another one each time that the library writes it, and its constants."""
    with TemporaryDirectory() as folder:
        model(Path(folder) / "m.xml")
        return (Path(folder) / "m.xml").read_text(), (Path(folder) / "m.bin").read_bytes()


@needs("openvino")
@examples(100)
@given(data=st.data())
def test_changed_files_are_read_or_told(data: st.DataObject, tmp_path_factory: Any) -> None:
    text, content = files()
    values = re.findall(r'"[^"]*"', text)
    for _ in range(data.draw(st.integers(1, 3))):
        numbers = st.integers().map(lambda number: f'"{number}"')
        new = data.draw(st.one_of(st.sampled_from(values), numbers))
        places = [match.span() for match in re.finditer(r'"[^"]*"', text)]
        start, stop = data.draw(st.sampled_from(places))
        text = text[:start] + new + text[stop:]
    folder: Path = tmp_path_factory.mktemp("openvino")
    path = folder / "m.xml"
    path.write_text(text)
    (folder / "m.bin").write_bytes(content)
    assert weights(["info", str(path)]) in (0, 1)
    assert weights(["import", str(path), "-o", str(folder / "o")]) in (0, 1)
