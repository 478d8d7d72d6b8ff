"""xDSL's builtin dialect, for contexts that share nothing with others."""

from __future__ import annotations

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Dialect


def fresh_builtin() -> Dialect:
    """xDSL's dialect with resources of its own: xDSL has one place for all of a process."""
    return Dialect(
        "builtin",
        list(Builtin.operations),
        list(Builtin.attributes),
        [OpAsmDialectInterface()],
    )
