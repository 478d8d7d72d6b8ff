"""A decoder of JAX and of torch whose weights are in files, quantized and run by names in IREE."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from in_iree import ran
from installed import needs

import qdialect
from qdialect.opt.opt import main as opt
from qdialect.weights.weights_tool import main as weights

SCRIPT = Path(qdialect.__file__).parent.parent / "examples" / "weights" / "decoder.py"
SIZES = ("--layers=1", "--width=256", "--words=64", "--heads=4", "--files=3")

FOLDS = ("--fold-constant-shapes", "--fold-quant-shapes")
LOWERED = ("--lower-quant-shapes", "--lower-dequantization=to=linalg-ext", "--canonicalize")


@needs("jax", "torch", "torch_mlir", "iree.compiler", "iree.runtime", "distributed")
@pytest.mark.iree
@pytest.mark.parametrize("library", ["jax", "torch"])
def test_a_decoder_with_quantized_weights_in_files(library: str, tmp_path: Path):
    """The bits of the module with all data; q, k and v are joined, and all are transposed."""
    command = [sys.executable, str(SCRIPT), library, str(tmp_path), *SIZES]
    subprocess.run(command, check=True, capture_output=True)
    model, plan, quantized = tmp_path / "model.mlir", tmp_path / "plan.json", tmp_path / "quantized"
    # Workers of a cluster quantize, and one process folds; each is compared with the other below.
    source = ["--weights", str(tmp_path / "model.json"), "-o", str(quantized)]
    options = ["--granularity=block", "--only=layers.*", "--shard-size=200000"]
    assert weights(["quantize", *source, *options, "--cluster=local:2"]) == 0
    manifest = quantized / "weights.json"
    named = ["--weights-to-parameters=file=" + str(tmp_path / "scales.safetensors")]
    flags = [f"--weights={manifest}", f"--fold-plan={plan}", *FOLDS, *LOWERED, *named]
    assert opt([*flags, str(model), "-o", str(tmp_path / "named.mlir")]) == 0
    # No scale is in a text.
    assert (tmp_path / "named.mlir").stat().st_size < 40000
    assert plan.stat().st_size < 40000
    folded = tmp_path / "folded"
    fold = ["fold", str(plan), "--weights", str(manifest), "-o"]
    assert weights([*fold, str(folded), "--shard-size=100000"]) == 0
    assert weights([*fold, str(tmp_path / "other"), "--cluster=local:2"]) == 0
    assert weights(["verify", str(plan), str(tmp_path / "other"), "--weights", str(manifest)]) == 0
    whole = [f"--weights={manifest}", "--read-weights=*", *FOLDS, *LOWERED]
    assert opt([*whole, str(model), "-o", str(tmp_path / "all.mlir")]) == 0
    tokens = np.arange(8, dtype=np.int32 if library == "jax" else np.int64)
    scopes = json.loads((folded / "weights.json").read_text())["scopes"]
    assert len(scopes["folded"]) > 1
    files = [*folded.glob("*.safetensors"), *tmp_path.glob("*.safetensors")]
    files += [*quantized.glob("*.safetensors")]
    result = ran(tmp_path, "named", files, tokens)
    assert result.shape == (8, 64)
    assert result.tobytes() == ran(tmp_path, "all", [], tokens).tobytes()
    other = [*(tmp_path / "other").glob("*.safetensors"), *files[len(scopes["folded"]) :]]
    assert result.tobytes() == ran(tmp_path, "named", other, tokens).tobytes()
    # Eight bits in blocks are near to floats.
    read = [f"--weights={tmp_path / 'model.json'}", "--read-weights=*", str(model)]
    assert opt([*read, "-o", str(tmp_path / "float.mlir")]) == 0
    wanted = ran(tmp_path, "float", [], tokens)
    assert np.abs(result - wanted).max() < 0.02 * np.abs(wanted).max()
