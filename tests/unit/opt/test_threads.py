"""Threads that share a context: each reads, folds, runs and prints modules of its own."""

import os
import subprocess
import sys
from pathlib import Path

from example_counts import SHARE

ROOT = Path(__file__).parents[3]

PROGRAM = '''
import sys, threading
from io import StringIO
import numpy as np
from qdialect.folding import FoldPolicy, fold_shapes
from qdialect.check.interpreters import run_function
from qdialect.text import parse_module, write_module
from qdialect.opt.registry import ToolContext

# Threads change places as often as they can.
sys.setswitchinterval(1e-6)
context = ToolContext(allow_unregistered=True)
start = threading.Barrier(8)
done = []

TEXT = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f() -> tensor<2x2xf32> {
  %w = quant.constant dense<[[FIRST, 2], [3, 4]]> : tensor<2x2x!q>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x2x!q> to tensor<2x2x!q>
  %r = quant.dcast %t : tensor<2x2x!q> to tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
func.func @g() {
  %w = arith.constant dense<[[FIRST, 2], [3, 4]]> : tensor<2x2xi8>
  %t = "tosa.transpose"(%w) {perms = array<i32: 1, 0>} : (tensor<2x2xi8>) -> tensor<2x2xi8>
  %u = "own.op"(%t) : (tensor<2x2xi8>) -> !own.type
  return
}
"""

def work(number):
    start.wait()
    for first in range(number, number + 4):
        text = TEXT.replace("FIRST", str(first)).replace("own.", f"own{first % 4}.")
        module = parse_module(context, text)
        fold_shapes(module, context, FoldPolicy())
        module.verify()
        stream = StringIO()
        write_module(context, module, stream)
        assert stream.getvalue().count(f"dense<[[{first}, 3], [2, 4]]>") == 2, stream.getvalue()
        assert "transpose" not in stream.getvalue()
        (result,) = run_function(module, "f", (), context)
        expected = np.array([[first, 3], [2, 4]]) * 0.5
        assert (result.elements.view("f4") == expected).all()
        done.append(first)

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(len(done) != 32)
'''


def test_a_context_of_several_threads() -> None:
    """In new processes, where each thread may be the first to need a dialect or a module."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    for _ in range(max(1, 3 // SHARE)):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
