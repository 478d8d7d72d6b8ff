"""The flags of ops of llvm: https://mlir.llvm.org/docs/Dialects/LLVM/."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from xdsl.dialects.builtin import IntegerAttr
from xdsl.irdl import IRDLOperation
from xdsl.irdl.constraints import VerificationContext
from xdsl.utils.exceptions import VerifyException

from qdialect.text.syntax import DialectSyntax

_FLAGS: Final = "overflowFlags"


def _read_flags(op: IRDLOperation, in_brackets: Collection[str]) -> None:
    """MLIR reads them as a number and as an attribute."""
    if _FLAGS not in in_brackets:
        op.attributes[_FLAGS] = op.properties.pop(_FLAGS)
        return
    # Deferred: it imports xDSL's llvm.
    from xdsl.dialects.llvm import OverflowAttr

    flags = op.properties[_FLAGS]
    declared = op.get_irdl_definition().properties.get(_FLAGS)
    if declared is None:
        return
    try:
        declared.constr.verify(flags, VerificationContext())
    except VerifyException:
        if isinstance(flags, OverflowAttr):
            op.properties[_FLAGS] = IntegerAttr(flags.to_int(), 32)
        elif isinstance(flags, IntegerAttr) and flags.value.data in range(4):
            op.properties[_FLAGS] = OverflowAttr.from_int(flags.value.data)


SYNTAX = DialectSyntax(dialect="llvm", flags=_FLAGS, read_flags=_read_flags)
