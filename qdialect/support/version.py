"""The version of this package, as it is installed; apart, since reading it takes 40 ms."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("qdialect")
except PackageNotFoundError:
    # A folder of files that is not installed.
    __version__ = "0+unknown"
