"""Folding with a certificate, for the passes' option `verify`."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Self

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from qdialect.folding.folder import fold_run, fold_shapes
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.policy import FoldPolicy
from qdialect.folding.report import PassReport
from qdialect.folding.report_listener import FoldReportListener
from qdialect.ir.errors import OpErrors


class Certificate(Enum):
    """The property that a certificate shows of each constant that a fold writes."""

    NONE = "none"

    STRUCTURE = "structure"
    """`p' = p . f`: every element reads the same slot as before. Elements are not compared."""

    VALUES = "values"
    """STRUCTURE, and `C' = C . f`: every element is stored and dequantized as before."""

    @classmethod
    def named(cls, name: str) -> Self:
        """The certificate named by the value of an option. Raises ValueError."""
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
    Like `fold_shapes`, and certify the result; the context receives the report if it listens.

    Raises OpErrors for ops that were folded wrongly; the folded module is kept.
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
) -> PassReport:
    # Deferred: a fold without a certificate does not need it.
    from qdialect.check.fold_certificates import FoldCertifier

    certifier = FoldCertifier(context, with_data=certificate is Certificate.VALUES)
    with fold_run(module, context, policy, may_fold) as run:
        for written in run.write():
            certifier.check(written)
        report = run.finish()
    if certifier.errors:
        raise OpErrors(certifier.errors)
    return report
