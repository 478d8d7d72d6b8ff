"""The dialects that qdialect provides, and what is known of the ops of others."""


def scalar(name: str) -> str:
    """The path of a function of elements, with which models say how an op is run."""
    return f"qdialect.dialects.arrays.scalar_functions:{name}"
