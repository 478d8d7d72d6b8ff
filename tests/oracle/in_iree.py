"""Modules run by IREE, with weights of files or without."""

from __future__ import annotations

import subprocess
from importlib import import_module
from io import StringIO
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.text import write_module


def ran(folder: Path, name: str, files: list[Path], inputs: NDArray[Any]) -> NDArray[Any]:
    """What IREE computes, with the weights of files."""
    compiler, runner = which("iree-compile"), which("iree-run-module")
    assert compiler is not None
    assert runner is not None
    code, given, output = folder / f"{name}.vmfb", folder / "x.npy", folder / f"{name}.npy"
    target = "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"
    command = [compiler, str(folder / f"{name}.mlir"), *target, "-o", str(code)]
    subprocess.run(command, check=True, capture_output=True)
    np.save(given, inputs)
    parameters = [f"--parameters=model={file}" for file in files]
    run = [runner, f"--module={code}", "--device=local-sync", "--function=main", *parameters]
    read = [f"--input=@{given}", f"--output=@{output}"]
    subprocess.run([*run, *read], check=True, capture_output=True)
    return np.load(output)


def iree_result(module: ModuleOp, *arguments: Any) -> NDArray[Any]:
    """What the only function of a module returns in IREE."""
    compiler, runtime = import_module("iree.compiler"), import_module("iree.runtime")
    flags = ["--iree-llvmcpu-target-cpu=generic"]
    text = StringIO()
    write_module(Context(), module, text, form="llvm24")
    binary: bytes = compiler.compile_str(
        text.getvalue(), target_backends=["llvm-cpu"], extra_args=flags
    )
    context: Any = runtime.SystemContext(config=runtime.Config("local-sync"))
    loaded: Any = runtime.VmModule.copy_buffer(context.instance, binary)
    context.add_vm_module(loaded)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    result: Any = context.modules[loaded.name][function.sym_name.data](*arguments)
    # The memory is freed with the runtime.
    return result.to_host().copy()
