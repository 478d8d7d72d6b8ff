"""The verifier of one op, and what it looks at: ops that are alike are verified once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from functools import cache
from inspect import signature

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from qdialect.algebra.bounded_cache import registered_cache


class VerifiedByAttributes(IRDLOperation, ABC):
    """
    For ops whose verifier looks at nothing but attributes.

    `qdialect.tools.verifier` asks for them, since most ops of a large module are alike.
    """

    def verified_attributes(self) -> Sequence[Attribute] | None:
        """
        All that the verifier looks at, beside the class and how many operands there are.

        None if that is more than attributes, for this op.
        """
        return (*self.operand_types, *self.result_types, *self.properties.values())


def verify_alone(op: Operation) -> None:
    """
    Call the verifiers of an op, but not those of the ops in its regions.

    Raises VerifyException, without the printed module that `Operation.verify` adds to it.
    """
    op.verify_()
    # xDSL's `verify` is a walk. A class that overrides it has checks there too.
    match _takes_verify_nested_ops(type(op)):
        case None:
            pass
        case True:
            op.verify(verify_nested_ops=False)
        case False:
            op.verify()


@registered_cache
@cache
def _takes_verify_nested_ops(cls: type[Operation]) -> bool | None:
    """Whether the `verify` of a class that overrides it has the parameter; else None."""
    if cls.verify is Operation.verify:
        return None
    parameters = signature(cls.verify).parameters.values()
    return any(
        each.name == "verify_nested_ops" or each.kind is each.VAR_KEYWORD for each in parameters
    )
