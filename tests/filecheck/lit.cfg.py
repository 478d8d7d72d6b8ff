import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

import lit.formats
from lit.TestingConfig import TestingConfig

config: TestingConfig = globals()["config"]

config.name = "qdialect"
# lit's own shell, for its `not`.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Output"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent / "Output")

# Tools that are forked from a process which has imported them: most runs are shorter than a start.
sys.path.append(str(Path(__file__).parents[1] / "oracle"))
server = import_module("tool_server").shared_server()
# The others of an environment that is not activated.
config.environment["PATH"] = os.pathsep.join(
    [server.folder, str(Path(sys.executable).parent), config.environment["PATH"]]
)
# The package of this checkout, where another one is installed.
if "PYTHONPATH" in os.environ:
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
for tool in ("mlir-opt-22", "iree-opt"):
    if shutil.which(tool, path=config.environment["PATH"]):
        config.available_features.add(tool)
