"""Folds with a certificate: what the passes call where one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Self

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.folding.folder import fold_run, fold_shapes
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import FoldReport
from qdialect.folding.report_listener import FoldReportListener
from qdialect.ir.errors import OpErrors


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
) -> None:
    """
    As `fold_shapes`, and the context takes the report if it listens.

    Raises OpErrors for the ops that are folded wrongly. The module is as the fold has left it
    then.
    """
    if certificate is Certificate.NONE:
        report = fold_shapes(module, context, policy, may_fold)
    else:
        report = _certified(module, context, policy, certificate, may_fold)
    if isinstance(context, FoldReportListener):
        context.take_fold_report(report)


def _certified(
    module: ModuleOp,
    context: Context,
    policy: FoldPolicy,
    certificate: Certificate,
    may_fold: Callable[[MovedConstant], bool],
) -> FoldReport:
    # A fold without a certificate does not import what certificates need.
    from qdialect.certificates.fold_certificates import FoldCertifier

    certifier = FoldCertifier(context, with_data=certificate is Certificate.VALUES)
    with fold_run(module, context, policy, may_fold) as run:
        for written in run.write():
            certifier.check(written)
        report = run.finish()
    if certifier.errors:
        raise OpErrors(certifier.errors)
    return report
