"""Names of models of other systems, older opsets, open shapes, and the memory of an import."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import needs
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.frontends import from_jax, from_onnx, from_torch
from qdialect.opt.registry import ToolContext
from qdialect.ptq.calibration.keys import keys_of

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

needs_onnx = needs("onnx", "iree.compiler")

SIDE = 96
"""The weights are large: they are not parsed with the model."""

WEIGHT = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype("f4")


def save(path: Path, opset: int = 17, *, count: int = 1, side: int = SIDE, **options: Any) -> None:
    """A chain of linear layers, with an open batch and a name with spaces."""
    onnx: Any = import_module("onnx")
    make: Any = onnx.helper
    nodes, tensors, value = list[Any](), list[Any](), "image data"
    weight = WEIGHT if side == SIDE else np.ones((side, side), "f4")
    for number in range(count):
        name = f"layers.{number}.weight"
        tensors.append(onnx.numpy_helper.from_array(weight, name))
        sums, relu = f"sums.{number}", f"relu.{number}"
        nodes.append(
            make.make_node("MatMul", [value, name], [sums], name=f"/layers.{number}/MatMul")
        )
        nodes.append(make.make_node("Relu", [sums], [relu]))
        value = relu
    ends = [make.make_tensor_value_info(name, 1, ["batch", side]) for name in ("image data", value)]
    graph = make.make_graph(nodes, "Model of tests.", ends[:1], ends[1:], tensors)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, str(path), **options)


def main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def weight_of(module: ModuleOp) -> ConstantOp:
    return next(
        op
        for op in module.walk()
        if isinstance(op, ConstantOp) and op.result.name_hint == "layers.0.weight"
    )


@needs_onnx
@pytest.mark.parametrize("options", [{}, {"save_as_external_data": True, "location": "w.data"}])
def test_names_of_onnx(tmp_path: Path, options: dict[str, Any]) -> None:
    save(tmp_path / "model.onnx", 11, **options)
    module = from_onnx(tmp_path / "model.onnx", shapes={"image data": (2, SIDE)})
    function = main(module)
    assert function.sym_name.data == "Model_of_tests"
    assert str(function.function_type) == f"(tensor<2x{SIDE}xf32>) -> tensor<2x{SIDE}xf32>"
    assert [argument.name_hint for argument in function.body.block.args] == ["image_data"]
    keys = {*keys_of(module).of_values.values()}
    assert {"image data", "layers.0.weight", "/layers.0/MatMul", "relu.0"} <= keys
    names = {result.name_hint for op in function.body.block.ops for result in op.results}
    assert {"layers.0.weight", "layers.0_MatMul", "relu.0"} <= names
    value: Any = weight_of(module).value
    assert np.frombuffer(value.data.data, "f4").tobytes() == WEIGHT.tobytes()


@needs_onnx
def test_weights_of_onnx_are_resources_of_a_context(tmp_path: Path) -> None:
    save(tmp_path / "model.onnx")
    context = ToolContext(allow_unregistered=True)
    module = from_onnx(tmp_path / "model.onnx", context=context)
    value = weight_of(module).value
    assert isinstance(value, DenseResourceAttr)
    assert value.resource_handle.data == "layers.0.weight"
    assert str(main(module).function_type) == f"(tensor<?x{SIDE}xf32>) -> tensor<?x{SIDE}xf32>"


@needs_onnx
def test_weights_among_the_nodes(tmp_path: Path) -> None:
    """As Paddle writes them."""
    onnx: Any = import_module("onnx")
    save(tmp_path / "model.onnx")
    model = onnx.load(str(tmp_path / "model.onnx"))
    (tensor,) = model.graph.initializer
    node = onnx.helper.make_node("Constant", [], ["layers.0.weight"], value=tensor)
    del model.graph.initializer[:]
    nodes = [node, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, str(tmp_path / "model.onnx"))
    value: Any = weight_of(from_onnx(tmp_path / "model.onnx")).value
    assert value.data.data == WEIGHT.tobytes()


@needs_onnx
def test_a_length_of_minus_one_is_open(tmp_path: Path) -> None:
    """As older exporters of Paddle write it."""
    save(tmp_path / "model.onnx")
    onnx: Any = import_module("onnx")
    model = onnx.load(str(tmp_path / "model.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    onnx.save(model, str(tmp_path / "model.onnx"))
    function = main(from_onnx(tmp_path / "model.onnx", shapes={"image data": (2, SIDE)}))
    assert str(function.function_type) == f"(tensor<2x{SIDE}xf32>) -> tensor<2x{SIDE}xf32>"


@needs_onnx
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (1, 2)}, "there is no input 'x'; the inputs are 'image data'"),
        ({"image data": (1,)}, "input 'image data' has rank 2, but a shape of 1"),
        ({"image data": (1, 3)}, "axis 1 of input 'image data' has length 96, not 3"),
    ],
)
def test_shapes_that_inputs_cannot_have(tmp_path: Path, shapes: Any, message: str) -> None:
    save(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=message):
        from_onnx(tmp_path / "model.onnx", shapes=shapes)


@needs_onnx
def test_files_that_are_no_models(tmp_path: Path) -> None:
    save(tmp_path / "model.onnx")
    data = (tmp_path / "model.onnx").read_bytes()
    for number, text in enumerate((b"", b"\x07", data[: len(data) // 2])):
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"empty|no model of ONNX"):
            from_onnx(path)


@needs_onnx
def test_data_outside_of_the_folder(tmp_path: Path) -> None:
    onnx: Any = import_module("onnx")
    folder = tmp_path / "model"
    folder.mkdir()
    save(folder / "model.onnx", save_as_external_data=True, location="w.data")
    (folder / "w.data").rename(tmp_path / "w.data")
    model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = "../w.data" if entry.key == "location" else entry.value
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="outside of"):
        from_onnx(folder / "model.onnx")


@needs_onnx
def test_an_op_that_is_not_lowered(tmp_path: Path) -> None:
    """Neither with weights that are arguments, nor with constants."""
    onnx: Any = import_module("onnx")
    save(tmp_path / "model.onnx")
    model = onnx.load(str(tmp_path / "model.onnx"))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Unknown", "tests"
    model.opset_import.append(onnx.helper.make_opsetid("tests", 1))
    onnx.save(model, str(tmp_path / "model.onnx"))
    with pytest.raises(Exception, match=r"Unknown|legalize"):
        from_onnx(tmp_path / "model.onnx")


PEAK = """
import resource, sys
from qdialect.frontends import from_onnx
module = from_onnx(sys.argv[1])
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
"""


@needs_onnx
def test_an_import_takes_hardly_more_memory_than_the_weights(tmp_path: Path) -> None:
    side, count = 1024, 16
    save(tmp_path / "small.onnx")
    save(tmp_path / "large.onnx", count=count, side=side)
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", PEAK, tmp_path / f"{name}.onnx"],
                check=True,
                capture_output=True,
            ).stdout
        )
        for name in ("small", "large")
    ]
    assert peaks[1] - peaks[0] <= 1.5 * 4 * side * side * count


@needs("torch", "torch_mlir")
@pytest.mark.parametrize("form", ["linalg-on-tensors", "stablehlo", "tosa", "torch"])
def test_names_of_torch(form: Any) -> None:
    torch: Any = import_module("torch")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

        def forward(self, image: Any) -> Any:
            for layer in self.layers:
                image = layer(image).relu()
            return image

    program = torch.export.export(Model(), (torch.randn(2, 4),))
    module = from_torch(program, form)
    names = {result.name_hint for op in module.walk() for result in op.results}
    # For tosa, torch-mlir transposes the weights, which are other constants then.
    kinds = ("bias",) if form == "tosa" else ("bias", "weight")
    assert {f"layers.{at}.{kind}" for at in range(2) for kind in kinds} <= names
    assert [argument.name_hint for argument in main(module).body.block.args] == ["image"]
    if form != "torch":
        assert {"image", "layers.1.bias"} <= {*keys_of(module).of_values.values()}


@needs("jax")
def test_names_of_jax() -> None:
    def model(params: Any, image: Any) -> Any:
        return image @ params["layers"][0]["w"]

    params = {"layers": [{"w": np.ones((4, 3), "f4")}]}
    module = from_jax(model, params, np.ones((2, 4), "f4"))
    arguments = [argument.name_hint for argument in main(module).body.block.args]
    assert arguments == ["params_layers_0_w", "image"]
    assert "params['layers'][0]['w']" in keys_of(module).of_values.values()
