"""The fold with a certificate, if one is asked for: what the passes call."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Self

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import OpErrors
from qdialect.fold_report import FoldReport
from qdialect.shape_folding.folder import fold_shapes
from qdialect.shape_folding.moved import MovedConstant
from qdialect.shape_folding.policy import FoldPolicy


class Certificate(Enum):
    """What is shown of each constant that a fold writes."""

    NONE = "none"

    STRUCTURE = "structure"
    """`p' = p . f`: every element reads the slot that it read before. No data is looked at."""

    VALUES = "values"
    """That, and `C' = C . f`: every element is stored, and read, as it was before."""

    @classmethod
    def named(cls, name: str) -> Self:
        """The one that an option names. Raises ValueError."""
        names = [certificate.value for certificate in cls]
        if name not in names:
            raise ValueError(f"verify must be one of {', '.join(names)}, but is '{name}'")
        return cls(name)


def fold_with_certificate(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    certificate: Certificate,
    may_fold: Callable[[MovedConstant], bool] = lambda constant: True,
) -> FoldReport:
    """
    As `fold_shapes`. Raises OpErrors for the ops that are folded wrongly.

    The module is as the fold has left it then.
    """
    if certificate is Certificate.NONE:
        return fold_shapes(module, context, policy, may_fold)
    from qdialect.certificates.fold_certificates import FoldCertifier

    certifier = FoldCertifier(context, with_data=certificate is Certificate.VALUES)
    report = fold_shapes(module, context, policy, may_fold, certifier)
    if certifier.errors:
        raise OpErrors(certifier.errors)
    return report
