"""The tests of texts: `lit -v tests`."""

import os
from pathlib import Path

import lit.formats
from lit.TestingConfig import TestingConfig

config: TestingConfig = globals()["config"]

config.name = "npu"
# lit's own shell, for its `not`.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).parent)

# Where the package is on the path, and not in the environment.
if "PYTHONPATH" in os.environ:
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
