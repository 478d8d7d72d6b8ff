"""A decoder whose weights are those of a quantized checkpoint, by name, run in IREE."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_iree import ran
from installed import needs
from quantized_checkpoints import save

import qdialect
from qdialect.opt.opt import main as opt
from qdialect.weights.tensor_files import read_header, writing
from qdialect.weights.weights_tool import main as weights

SCRIPT = Path(qdialect.__file__).parent.parent / "examples" / "weights" / "decoder.py"

FOLDS = ("--fold-constant-shapes", "--fold-quant-shapes")
LOWERED = ("--lower-quant-shapes", "--lower-dequantization=to=linalg-ext", "--canonicalize")


def compressed(weight: Any, scales: Any, zeros: Any) -> tuple[dict[str, Any], Any]:
    """The tensors of compressed-tensors, and what it dequantizes."""
    torch: Any = import_module("torch")
    scheme_of: Any = import_module("compressed_tensors.quantization")
    base: Any = import_module("compressed_tensors.compressors.pack_quantized.base")
    arguments = scheme_of.QuantizationArgs(
        num_bits=4, type="int", symmetric=False, strategy="group", group_size=32
    )
    scheme = scheme_of.QuantizationScheme(targets=["Linear"], weights=arguments)
    zeros = (zeros - 8).to(torch.int8)
    state = {"weight": weight, "weight_scale": scales, "weight_zero_point": zeros}
    packed: Any = base.PackedQuantizationCompressor.compress(state, scheme)
    return packed, base.PackedQuantizationCompressor.decompress(packed, scheme)["weight"]


def packed_by_eights(weight: Any, scales: Any, zeros: Any) -> tuple[dict[str, Any], Any]:
    """The tensors of AutoAWQ's gemm, and (code - zero) * scale, with scales of f16."""
    torch: Any = import_module("torch")
    scales = scales.half()
    spread = [array.float().repeat_interleave(32, 1) for array in (scales, zeros)]
    codes = torch.clamp(torch.round(weight / spread[0] + spread[1]), 0, 15)

    def packed(array: Any) -> Any:
        eights = array.T.to(torch.int64).reshape(array.shape[1], -1, 8)
        order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
        words = (eights[:, :, order] << (4 * torch.arange(8))).sum(-1)
        return torch.from_numpy(words.numpy().astype(np.uint32).view(np.int32))

    tensors = {"qweight": packed(codes), "qzeros": packed(zeros), "scales": scales.T}
    return tensors, (codes - spread[1]) * spread[0]


COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "bits": 4}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}


@needs("jax", "iree.compiler", "iree.runtime", "torch_mlir", "torch", "safetensors")
@needs("compressed_tensors")
@pytest.mark.iree
@pytest.mark.parametrize(
    ("exporter", "quantized", "config"),
    [("jax", compressed, COMPRESSED), ("torch", packed_by_eights, AWQ)],
)
def test_a_decoder_of_a_checkpoint(
    exporter: str, quantized: Any, config: dict[str, Any], tmp_path: Path
):
    """The numbers of the decoder with what the library dequantizes."""
    sizes = ("--layers=1", "--width=64", "--words=32", "--heads=4", "--files=1")
    command = [sys.executable, str(SCRIPT), exporter, str(tmp_path), *sizes]
    subprocess.run(command, check=True, capture_output=True)
    torch: Any = import_module("torch")
    (source,) = tmp_path.glob("model-*.safetensors")
    data, header = source.read_bytes(), read_header(source)
    packed, floats = dict[str, Any](), dict[str, Any]()
    for name, entry in header.items():
        array = np.frombuffer(data[entry.start : entry.start + entry.nbytes], np.float32)
        weight = torch.from_numpy(array.reshape(entry.shape).copy())
        if name == "embedding":
            floats[name] = packed["embedding.weight"] = weight
            continue
        blocks = weight.reshape(len(weight), -1, 32)
        scales = (blocks.amax(2) - blocks.amin(2)) / 15
        zeros = torch.clamp(torch.round(-blocks.amin(2) / scales), 0, 15)
        parts, floats[name] = quantized(weight, scales, zeros)
        packed |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
    checkpoint, imported = save(tmp_path / "c", packed, config), tmp_path / "imported"
    assert weights(["import", str(checkpoint), "-o", str(imported)]) == 0
    # The arguments of the function have the names of the checkpoint.
    manifest = json.loads((imported / "weights.json").read_text())
    places = json.loads((tmp_path / "model.json").read_text())["values"]
    for place, value in places.items():
        is_float = value["key"] == "embedding"
        scope = "source" if is_float else "imported"
        manifest["values"][place] = {"scope": scope, "key": f"{value['key']}.weight"}
    named = imported / "named.json"
    named.write_text(json.dumps(manifest))
    model, plan = str(tmp_path / "model.mlir"), tmp_path / "plan.json"
    to_file = f"--weights-to-parameters=file={tmp_path / 'scales.safetensors'} least=64"
    flags = [f"--weights={named}", *FOLDS, f"--fold-plan={plan}", *LOWERED, to_file]
    assert opt([*flags, model, "-o", str(tmp_path / "named.mlir")]) == 0
    fold = ["fold", str(plan), "--weights", str(named), "-o", str(tmp_path / "folded")]
    assert weights(fold) == 0
    files = [*tmp_path.glob("folded/*.safetensors"), *imported.glob("*.safetensors")]
    files += [tmp_path / "scales.safetensors", checkpoint / "model.safetensors"]
    tokens = np.arange(8, dtype=np.int32 if exporter == "jax" else np.int64)
    result = ran(tmp_path, "named", files, tokens)
    with writing(
        tmp_path / "floats.safetensors", [(n, "F32", e.shape) for n, e in header.items()]
    ) as file:
        for name, tensor in floats.items():
            file.write(name, memoryview(tensor.numpy().tobytes()), 0)
        file.finish()
    (tmp_path / "floats.json").write_text(
        (tmp_path / "model.json").read_text().replace(source.name, "floats.safetensors")
    )
    read_all = [f"--weights={tmp_path / 'floats.json'}", "--read-weights=*", model]
    assert opt([*read_all, "-o", str(tmp_path / "float.mlir")]) == 0
    wanted = ran(tmp_path, "float", [], tokens)
    assert result.shape == wanted.shape == (8, 32)
    assert np.abs(result - wanted).max() < 1e-5 * np.abs(wanted).max()
