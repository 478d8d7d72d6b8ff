"""What the verifier of an op looks at, so that ops that are alike are verified once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation


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
