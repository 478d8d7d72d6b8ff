"""
Write `linear.tflite`: a linear layer of int8, quantized per channel, with random weights.

A TFLite model is a flatbuffer: https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec.
`pip install tflite` has the code to write one, and TensorFlow is not needed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("linear.tflite")

ROWS, INPUTS, OUTPUTS = 1, 12, 5

Offset = int
"""Where the builder has put something."""


class ModelWriter:
    """Writes tensors, ops and the rest of a model."""

    def __init__(self) -> None:
        # They have no stubs.
        self.schema: Any = import_module("tflite")
        self.builder: Any = import_module("flatbuffers").Builder(0)
        self.buffers = [self.table("Buffer")]
        self.tensors: list[Offset] = []

    def table(self, name: str, **fields: Any) -> Offset:
        """A table of the schema: numbers, or what has been written before."""
        getattr(self.schema, f"{name}Start")(self.builder)
        for field, value in fields.items():
            getattr(self.schema, f"{name}Add{field}")(self.builder, value)
        return getattr(self.schema, f"{name}End")(self.builder)

    def array(self, numbers: Any, dtype: str) -> Offset:
        """Numbers, one after another."""
        return self.builder.CreateNumpyVector(np.asarray(numbers, dtype=dtype).reshape(-1))

    def offsets(self, of: list[Offset]) -> Offset:
        """Tables, one after another."""
        self.builder.StartVector(4, len(of), 4)
        for offset in reversed(of):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def tensor(
        self, name: str, shape: tuple[int, ...], type: str, scales: Any, zero: int, data: Any = None
    ) -> int:
        """The number of a new tensor, quantized on its first axis; a constant if it has data."""
        count = np.size(scales)
        if data is not None:
            self.buffers.append(self.table("Buffer", Data=self.array(data.view(np.uint8), "u1")))
        quantization = self.table(
            "QuantizationParameters",
            Scale=self.array(scales, "<f4"),
            ZeroPoint=self.array([zero] * count, "<i8"),
        )
        self.tensors.append(
            self.table(
                "Tensor",
                Shape=self.array(shape, "<i4"),
                Type=getattr(self.schema.TensorType, type),
                Buffer=0 if data is None else len(self.buffers) - 1,
                Name=self.builder.CreateString(name),
                Quantization=quantization,
            )
        )
        return len(self.tensors) - 1


def linear_model() -> bytes:
    """The flatbuffer of the model."""
    random = np.random.default_rng(0)
    writer = ModelWriter()
    weight_scales = random.uniform(0.01, 0.1, OUTPUTS).astype(np.float32)
    weights = random.integers(-127, 128, (OUTPUTS, INPUTS), dtype=np.int8)
    bias = random.integers(-500, 500, OUTPUTS, dtype=np.int32)
    x = writer.tensor("x", (ROWS, INPUTS), "INT8", [0.05], 3)
    w = writer.tensor("weights", weights.shape, "INT8", weight_scales, 0, weights)
    b = writer.tensor("bias", bias.shape, "INT32", weight_scales * np.float32(0.05), 0, bias)
    y = writer.tensor("y", (ROWS, OUTPUTS), "INT8", [0.2], -5)
    schema = writer.schema
    op = writer.table(
        "Operator",
        OpcodeIndex=0,
        Inputs=writer.array([x, w, b], "<i4"),
        Outputs=writer.array([y], "<i4"),
        BuiltinOptionsType=schema.BuiltinOptions.FullyConnectedOptions,
        BuiltinOptions=writer.table("FullyConnectedOptions"),
    )
    graph = writer.table(
        "SubGraph",
        Tensors=writer.offsets(writer.tensors),
        Inputs=writer.array([x], "<i4"),
        Outputs=writer.array([y], "<i4"),
        Operators=writer.offsets([op]),
        Name=writer.builder.CreateString("main"),
    )
    fully_connected = schema.BuiltinOperator.FULLY_CONNECTED
    code = writer.table(
        "OperatorCode",
        DeprecatedBuiltinCode=fully_connected,
        BuiltinCode=fully_connected,
        # What has scales for each channel.
        Version=4,
    )
    model = writer.table(
        "Model",
        Version=3,
        OperatorCodes=writer.offsets([code]),
        Subgraphs=writer.offsets([graph]),
        Buffers=writer.offsets(writer.buffers),
    )
    writer.builder.Finish(model, file_identifier=b"TFL3")
    return bytes(writer.builder.Output())


if __name__ == "__main__":
    PATH.write_bytes(linear_model())
