"""The passes that quantize whole models from recorded ranges, and verify the result."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from typing import ClassVar

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qdialect.folding import send_report, wants_values, warn, warn_of
from qdialect.folding.report import Outcome, PassReport
from qdialect.ir.errors import OpErrors, pass_failures
from qdialect.ops.along_axis import drop_ranges, is_statistics
from qdialect.ops.refusals import RefusalCode
from qdialect.ptq.assignment import assignment_steps as steps
from qdialect.ptq.assignment.quantization_verification import Expectation, verify_quantization
from qdialect.ptq.assignment.settings import (
    Configuration,
    Precision,
    SettingError,
    Settings,
    check_precision,
    declared_scheme,
    granularity_of,
    precision_of,
    storage_named,
    weight_policy,
)
from qdialect.ptq.assignment.whole_model import quantize_model
from qdialect.ptq.calibration.keys import keys_of
from qdialect.ptq.schemes.presets import SCHEME_NAMES, scheme_of
from qdialect.ptq.schemes.profile import Profile


@contextmanager
def _configuration_in(path: str | None) -> Generator[Configuration]:
    """
    The configuration in a file, or one without settings.

    Raises PassFailedException, also for settings that the code in the context refuses.
    """
    with pass_failures():
        configuration = Configuration() if path is None else Configuration.read(path)
        try:
            yield configuration
        except SettingError as error:
            raise configuration.located(error) from None


OPS = ("all", "sums-of-products")
"""The ops that may be quantized."""


@dataclass(frozen=True)
class AssignmentPass(ModulePass):
    """A pass that runs steps of `quantize-with-ranges`, with its options."""

    STEPS: ClassVar[Sequence[steps.Step]]
    IS_WRITTEN: ClassVar[bool] = False

    config: str | None = None
    """A file with the layers of other precisions: JSON, in ONE's format."""

    scheme: str | None = field(default=None, metadata={"values": SCHEME_NAMES})
    """The name of a system, or of one of its schemes; `one-u8` unless `config` names another."""

    granularity: str | None = None
    """The granularity of weights: `layer` (or `tensor`), `channel`, `block`; default `channel`."""

    block_size: int = 32
    """The length of a block along the axis that is summed over."""

    weight_scheme: str | None = None
    """The scheme of weights: a name as for `scheme`, whose scheme of weights is the default."""

    weight_storage: str | None = None
    """The storage of weights, such as `i8` or `i4`; default that of the scheme."""

    otherwise: str = "leave"
    """The fallback for weights: `leave` them float, or use a `coarser` granularity."""

    tf_style_maxpool: bool | None = None
    """
    Whether the result of a max pool has the parameters of the operand, not those of its own range;
    by default not in ONE's schemes, and in the others.
    """

    input_types: tuple[str, ...] = ()
    """The types of arguments: `f32`, `u8`, `i8` or `i16`; one for each, or one for all."""

    output_types: tuple[str, ...] = ()
    """The types of results, in the same way."""

    ops: str = field(default="all", metadata={"values": OPS})
    """What is quantized: `all` ops with a rule, or only `sums-of-products`."""

    narrow_fixed: bool = False
    """
    Whether results with a known range, such as those of a sigmoid, have parameters of their
    recorded range if that is less than half of it. Kernels of TFLite and ONE do not compute those.
    """

    profile: str | None = None
    """A profile with histograms, to estimate the noise in reports."""

    save_ranges: bool = False
    """Whether `quant.stats` stays."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid value of an option."""
        self._settings(Configuration(), ())
        if self.ops not in OPS:
            raise ValueError(f"ops must be one of {', '.join(OPS)}, not '{self.ops}'")
        for word in (*self.input_types, *self.output_types):
            declared_scheme(word)

    def _settings(self, configuration: Configuration, keys: Collection[str]) -> Settings:
        precision = configuration.default_precision(self.scheme)
        weights = precision.weights.scheme
        if self.weight_scheme is not None or self.weight_storage is not None:
            storage = storage_named(self.weight_storage) if self.weight_storage else None
            weights = scheme_of(self.weight_scheme or precision.name, storage)
        granularity = configuration.granularity_of_weights(self.granularity)
        policy = weight_policy(weights, granularity, self.block_size, self.otherwise)
        shares_pools = self.tf_style_maxpool
        if shares_pools is None:
            shares_pools = precision.shares_pools
        default = replace(precision, weights=policy, shares_pools=shares_pools)
        check_precision(default)
        return Settings(
            default,
            *configuration.of_layers(keys, default),
            configuration.parameters,
            configuration.copies,
            self.input_types,
            self.output_types,
            self.ops == "sums-of-products",
            self.narrow_fixed,
        )

    @override
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with _configuration_in(self.config) as configuration:
            profile = None if self.profile is None else Profile.read(self.profile)
            report = quantize_model(
                op,
                ctx,
                lambda keys: self._settings(configuration, keys),
                steps=self.STEPS,
                is_written=self.IS_WRITTEN,
                profile=profile,
                is_explained=wants_values(ctx),
            )
        # Each step reports what it refuses.
        warn_of(ctx, report.refused(RefusalCode.GRANULARITY, RefusalCode.ILLEGAL_TYPE))
        if self.IS_WRITTEN:
            _warn_of_missing_ranges(ctx, op, report)
        if self.IS_WRITTEN and not self.save_ranges:
            drop_ranges(op)
        send_report(ctx, report)


def _warn_of_missing_ranges(ctx: Context, op: ModuleOp, report: PassReport) -> None:
    """Warn if nothing is quantized since ranges are missing."""
    unrecorded = report.refused(RefusalCode.NO_RECORD)
    if unrecorded and not any(record.outcome is Outcome.QUANTIZED for record in report.records):
        hint = "" if any(map(is_statistics, op.walk())) else "; run '--attach-ranges' before"
        warn(ctx, op, f"nothing is quantized: {unrecorded[0].reason}{hint}")


@dataclass(frozen=True)
class QuantizeWithRangesPass(AssignmentPass):
    """
    Quantize values with `quant.stats`, constants, weights and biases.

    Users read quantized values through `quant.dcast` of `quant.qcast`. Ops that stay float are
    reported as remarks.

    Example: `qdialect-opt --attach-ranges=profile=profile.json
    --quantize-with-ranges=scheme=one-u8 model.mlir`.
    """

    name = "quantize-with-ranges"
    STEPS = steps.SEQUENCE
    IS_WRITTEN = True


def _pass_of(step: steps.Step, example: str) -> type[AssignmentPass]:
    """The pass of one step; the example runs after `attach-ranges`."""
    sentence, *_ = cleandoc(step.__doc__ or "").splitlines()
    text = f"""{sentence}

The assignment is written as attributes, for the steps after this one.

Example: `qdialect-opt --attach-ranges=profile=profile.json {example} model.mlir`."""
    words = step.__name__.split("_")
    name = "".join(map(str.capitalize, words)) + "Pass"
    members = {"__doc__": text, "__module__": __name__, "name": "-".join(words), "STEPS": (step,)}
    return type(name, (AssignmentPass,), members)


AssignActivationsPass = _pass_of(steps.assign_activations, "--assign-activations")
AssignMixedPrecisionPass = _pass_of(
    steps.assign_mixed_precision, "--assign-activations --assign-mixed-precision=config=config.json"
)
RemoveRedundantQuantizePass = _pass_of(
    steps.remove_redundant_quantize, "--assign-activations --remove-redundant-quantize"
)
PropagateParametersBackwardPass = _pass_of(
    steps.propagate_parameters_backward, "--assign-activations --propagate-parameters-backward"
)
AssignConstantInputsPass = _pass_of(steps.assign_constant_inputs, "--assign-constant-inputs")
AssignFixedValuesPass = _pass_of(
    steps.assign_fixed_values, "--assign-activations --assign-fixed-values"
)
PropagateParametersForwardPass = _pass_of(
    steps.propagate_parameters_forward, "--assign-activations --propagate-parameters-forward"
)
AssignWeightsPass = _pass_of(steps.assign_weights, "--assign-weights=granularity=tensor")
AssignBiasesPass = _pass_of(
    steps.assign_biases, "--assign-activations --assign-weights --assign-biases"
)
AssignInputTypesPass = _pass_of(
    steps.assign_input_types, "--assign-activations --assign-input-types=input-types=u8"
)
AssignOutputTypesPass = _pass_of(
    steps.assign_output_types,
    "--assign-activations --propagate-parameters-forward --assign-output-types=output-types=i16",
)


@dataclass(frozen=True)
class WriteQuantizedPass(AssignmentPass):
    """
    Write the assignment in attributes as `quant.qcast` and `quant.dcast`, and drop the attributes.

    Requantizations that change nothing are left out.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --write-quantized model.mlir`.
    """

    name = "write-quantized"
    STEPS = (steps.remove_redundant_quantize,)
    IS_WRITTEN = True


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
            with _configuration_in(self.config) as configuration:
                precision = configuration.default_precision(self.scheme)
                granularity = granularity_of(configuration.granularity_of_weights(self.granularity))
                weights = replace(precision.weights, granularity=granularity)
                precision = replace(precision, weights=weights)
                layers, _ = configuration.of_layers(keys_of(op).roots.keys(), precision)
            default = _expectation(precision, granularity)
            expected = {
                key: _expectation(layer, layer.weights.granularity)
                for key, layer in layers.items()
                if layer is not None
            }
        violations = verify_quantization(op, ctx, expected, default)
        errors = [*violations.errors, *(violations.floats if self.strict else ())]
        if not self.strict:
            for at, message in violations.floats:
                warn(ctx, at, message)
        if errors:
            raise OpErrors(errors)


def _expectation(precision: Precision, granularity: str | None) -> Expectation:
    return Expectation(precision.activations.storage, precision.weights.scheme.storage, granularity)
