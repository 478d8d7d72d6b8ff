"""The pass that reports ops of a quantized module that integer kernels cannot compute."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.folding import WarningListener
from qdialect.ir.errors import OpErrors
from qdialect.ptq.assignment.quantization_verification import (
    Expectation,
    verify_quantization,
)
from qdialect.ptq.assignment.settings import (
    Configuration,
    Precision,
    SettingError,
    granularity_of,
    precision_of,
    weight_policy,
)
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.schemes.presets import SCHEME_NAMES


@dataclass(frozen=True)
class VerifyQuantizationPass(ModulePass):
    """
    Report ops of a quantized module that integer kernels cannot compute, as ONE's verifier does.

    Storage, scales and zero points are checked around each op whose operands and results are
    quantized: see docs/whole_models.md. Ops that compute in floats in between are warnings.

    Example: `qdialect-opt --verify-quantization=scheme=one-u8 quantized.mlir`.
    """

    name = "verify-quantization"

    scheme: str | None = field(default=None, metadata={"values": SCHEME_NAMES})
    """The expected scheme; any by default."""

    granularity: str | None = None
    """The expected granularity of weights: `layer`, `channel` or `block`; any by default."""

    config: str | None = None
    """A file with the layers of other precisions, as for `quantize-with-ranges`."""

    strict: bool = False
    """Whether an op that computes in floats between quantized values is an error."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._default()
        if self.scheme is not None:
            precision_of(self.scheme)

    def _default(self) -> Expectation:
        granularity = None if self.granularity is None else str(granularity_of(self.granularity))
        if self.scheme is None:
            return Expectation(granularity=granularity)
        return _expectation(precision_of(self.scheme), granularity)

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises OpErrors."""
        expected, default = dict[str, Expectation](), self._default()
        if self.config is not None:
            configuration = Configuration()
            try:
                configuration = Configuration.read(self.config)
                of_module = configuration.default_precision(self.scheme)
                words = configuration.granularity_of_weights(self.granularity)
                policy = weight_policy(of_module.weights.scheme, words, 32, "leave")
                of_module = of_module.with_granularity(policy.granularity)
                layers = configuration.of_layers(keys_of(op).roots.keys(), of_module)
            except OSError as error:
                message = f"cannot open '{self.config}': {error.strerror}"
                raise PassFailedException(message) from None
            except SettingError as error:
                raise PassFailedException(str(configuration.located(error))) from None
            except ValueError as error:
                raise PassFailedException(str(error)) from None
            default = _expectation(of_module, policy.granularity)
            expected = {
                key: _expectation(each, each.weights.granularity) for key, each in layers.items()
            }
        found = verify_quantization(op, ctx, expected, default)
        errors = [*found.errors, *(found.floats if self.strict else ())]
        if not self.strict and isinstance(ctx, WarningListener):
            for at, message in found.floats:
                ctx.take_warning(at, message)
        if errors:
            raise OpErrors(errors)


def _expectation(precision: Precision, granularity: str | None) -> Expectation:
    return Expectation(precision.activations.storage, precision.weights.scheme.storage, granularity)
