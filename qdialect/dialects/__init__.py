"""The dialects that qdialect provides, and what is known of the ops of others."""


def scalar(name: str) -> str:
    """The path of a function of elements, with which models say how an op is run."""
    return f"qdialect.dialects.arrays.scalar_functions:{name}"


BITCAST = "qdialect.dialects.arrays.elements:bitcast"
"""The path of the function that reads bits as elements of another type."""

LARGER = frozenset({scalar("larger"), scalar("larger_number"), "numpy:maximum"})
SMALLER = frozenset({scalar("smaller"), scalar("smaller_number"), "numpy:minimum"})
"""The paths of functions of the larger, or of the smaller, of two elements."""


def run_in(dialect: str, name: str) -> str:
    """The path of a function that computes ops of a dialect."""
    return f"qdialect.dialects.{dialect}.runs:{name}"
