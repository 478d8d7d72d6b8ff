"""Files by URLs: read by ranges, and put in one piece."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs

from qdialect.weights.manifest import read_manifest
from qdialect.weights.tensor_files import writing
from qdialect.weights.weights_tool import main as weights

pytestmark = needs("fsspec")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A file system in memory with two files and their index."""
    fsspec: Any = import_module("fsspec")
    files = fsspec.filesystem("memory")
    index = dict[str, str]()
    for number in range(2):
        names = [f"layer{number}.{name}" for name in ("a", "b")]
        path = tmp_path / f"m{number}.safetensors"
        with writing(path, [(name, "F32", (48, 64)) for name in names]) as file:
            for name in names:
                array = np.random.default_rng(len(index)).normal(size=(48, 64)).astype(np.float32)
                file.write(name, array.reshape(-1).view(np.uint8).data, 0)
                index[name] = path.name
            file.finish()
        files.put_file(str(path), f"/models/{path.name}")
    text = json.dumps({"weight_map": index})
    files.pipe("/models/model.safetensors.index.json", text.encode())
    (tmp_path / "model.safetensors.index.json").write_text(text)
    yield files
    files.rm("/models", recursive=True)


def test_the_bytes_of_local_files(store: Any, tmp_path: Path):
    options = ["--shard-size=2000", "--storage=i4", "--granularity=block"]
    index = "model.safetensors.index.json"
    own = ["quantize", "--weights", str(tmp_path / index), "-o", str(tmp_path / "q"), *options]
    assert weights(own) == 0
    remote = ["quantize", "--weights", f"memory://models/{index}", "-o", "memory://models/q"]
    record = ["--record", str(tmp_path / "record")]
    assert weights([*remote, *record, *options, "--max-memory=100"]) == 0
    local = sorted((tmp_path / "q").glob("*.safetensors"))
    assert len(local) == 4
    assert sorted(map(Path, store.ls("/models/q", detail=False))) == [
        Path("/models/q", path.name) for path in local
    ]
    for path in local:
        assert store.cat(f"/models/q/{path.name}") == path.read_bytes()
    # The record has the manifest, whose files are URLs.
    tensors = read_manifest(tmp_path / "record" / "weights.json").tensors
    assert {tensor.path.rpartition("/")[0] for tensor in tensors.values()} == {
        "memory://models",
        "memory://models/q",
    }
    # What is whole stays, and what is not is written again.
    changed = f"/models/q/{local[0].name}"
    store.pipe(changed, b"nothing")
    before = store.modified(f"/models/q/{local[1].name}")
    assert weights([*remote, *record, *options, "--resume"]) == 0
    assert store.cat(changed) == local[0].read_bytes()
    assert store.modified(f"/models/q/{local[1].name}") == before


def test_errors_name_the_url(store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = "memory://models/nothing.safetensors"
    assert weights(["info", missing]) == 1
    assert f"{missing}: No such file or directory" in capsys.readouterr().err
    content = store.cat("/models/m0.safetensors")
    store.pipe("/models/short.safetensors", content[:-1])
    assert weights(["info", "memory://models/short.safetensors"]) == 1
    assert "memory://models/short.safetensors: it is cut off" in capsys.readouterr().err
    assert weights(["info", "unknown://models/a.safetensors"]) == 1
    assert "unknown://models/a.safetensors: Protocol not known" in capsys.readouterr().err
    other = ["quantize", "--weights", "memory://models/m0.safetensors", "-o", "unknown://q"]
    assert weights([*other, "--record", str(tmp_path / "r")]) == 1
    assert "unknown://q/quantized-00001-of-00001.safetensors: Protocol" in capsys.readouterr().err
