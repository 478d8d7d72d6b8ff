"""
The ops of arith for which xDSL has no class.

https://mlir.llvm.org/docs/Dialects/ArithOps/.
"""

from __future__ import annotations

import numpy as np

from qdialect.interpreters.reference.registry import named_run
from qdialect.interpreters.reference.values import on_elements

named_run("arith.remf", is_rounded=False)(on_elements(np.fmod, count=2))
