"""
Import of models of other systems, each by a library that knows its format.

Each function needs an extra of this package, which installs the library. The library is imported
when the function is called. See docs/pipelines.md.
"""

from __future__ import annotations

from qdialect.support.lazy_exports import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from qdialect.frontends.jax_functions import from_jax
    from qdialect.frontends.onnx_models import OnnxForm, from_onnx
    from qdialect.frontends.tflite_models import from_tflite
    from qdialect.frontends.torch_programs import TorchForm, from_torch

__all__ = ["OnnxForm", "TorchForm", "from_jax", "from_onnx", "from_tflite", "from_torch"]

__getattr__ = lazy_exports(
    __name__,
    {
        "OnnxForm": "onnx_models",
        "TorchForm": "torch_programs",
        "from_jax": "jax_functions",
        "from_onnx": "onnx_models",
        "from_tflite": "tflite_models",
        "from_torch": "torch_programs",
    },
)
