"""The dialects that qdialect provides, and what is known of the ops of others."""


def scalar(name: str) -> str:
    """The path of a function of elements, with which models say how an op is run."""
    return f"qdialect.dialects.arrays.scalar_functions:{name}"


_OF_NUMPY = (
    "cbrt ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 sin sinh sqrt square tan tanh "
    "trunc"
)
_INVERSE = "cos cosh sin sinh tan tan2 tanh"

FUNCTIONS = {
    **{name: f"numpy:{name}" for name in _OF_NUMPY.split()},
    **{f"a{name}": f"numpy:arc{name}" for name in _INVERSE.split()},
    "erf": scalar("erf"),
    "erfc": scalar("erfc"),
    "reciprocal": scalar("reciprocal"),
    "round": "qdialect.support.float_format:rounded_half_away",
    "roundeven": "numpy:rint",
    "rsqrt": scalar("reciprocal_root"),
}
"""The paths of functions of floats, by the names that most dialects have for them."""

BITCAST = "qdialect.dialects.arrays.elements:bitcast"
"""The path of the function that reads bits as elements of another type."""

LARGER = frozenset({scalar("larger"), scalar("larger_number"), "numpy:maximum"})
SMALLER = frozenset({scalar("smaller"), scalar("smaller_number"), "numpy:minimum"})
"""The paths of functions of the larger, or of the smaller, of two elements."""


def run_in(dialect: str, name: str) -> str:
    """The path of a function that computes ops of a dialect."""
    return f"qdialect.dialects.{dialect}.runs:{name}"
