"""The steps of `quantize-with-ranges` as passes, in the order in which it takes them."""

from __future__ import annotations

from dataclasses import dataclass

from qdialect.ptq.passes.quantize_with_ranges import AssignmentPass


@dataclass(frozen=True)
class AssignActivationsPass(AssignmentPass):
    """
    Assign parameters to the values that have recorded ranges.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations model.mlir`.
    """

    name = "assign-activations"
    STEPS = ("activations",)


@dataclass(frozen=True)
class AssignMixedPrecisionPass(AssignmentPass):
    """
    Requantize the operands and results of layers of another precision.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-mixed-precision=config=config.json model.mlir`.
    """

    name = "assign-mixed-precision"
    STEPS = ("mixed-precision",)


@dataclass(frozen=True)
class RemoveRedundantQuantizePass(AssignmentPass):
    """
    Keep only the last of consecutive requantizations, if it changes the type.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --remove-redundant-quantize model.mlir`.
    """

    name = "remove-redundant-quantize"
    STEPS = ("redundant-quantize",)


@dataclass(frozen=True)
class PropagateParametersBackwardPass(AssignmentPass):
    """
    Give operands the parameters of results that hold the same elements.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-backward model.mlir`.
    """

    name = "propagate-parameters-backward"
    STEPS = ("backward",)


@dataclass(frozen=True)
class AssignConstantInputsPass(AssignmentPass):
    """
    Assign parameters to constant operands by their own values.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-constant-inputs
    model.mlir`.
    """

    name = "assign-constant-inputs"
    STEPS = ("constant-inputs",)


@dataclass(frozen=True)
class AssignFixedValuesPass(AssignmentPass):
    """
    Assign parameters to results with a known range, and round some scales to whole numbers.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-fixed-values model.mlir`.
    """

    name = "assign-fixed-values"
    STEPS = ("fixed-values",)


@dataclass(frozen=True)
class PropagateParametersForwardPass(AssignmentPass):
    """
    Give results the parameters of operands whose elements they hold.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-forward model.mlir`.
    """

    name = "propagate-parameters-forward"
    STEPS = ("forward",)


@dataclass(frozen=True)
class AssignWeightsPass(AssignmentPass):
    """
    Assign parameters to constant weights by their own values.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-weights=granularity=tensor
    model.mlir`.
    """

    name = "assign-weights"
    STEPS = ("weights",)


@dataclass(frozen=True)
class AssignBiasesPass(AssignmentPass):
    """
    Assign to biases the product of the scales of the input and of the weights.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-weights --assign-biases model.mlir`.
    """

    name = "assign-biases"
    STEPS = ("biases",)


@dataclass(frozen=True)
class AssignInputTypesPass(AssignmentPass):
    """
    Give arguments of functions quantized types.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --assign-input-types=input-types=u8 model.mlir`.
    """

    name = "assign-input-types"
    STEPS = ("input-types",)


@dataclass(frozen=True)
class AssignOutputTypesPass(AssignmentPass):
    """
    Give results of functions quantized types.

    The assignment is written as attributes, for the steps after this one.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --propagate-parameters-forward --assign-output-types=output-types=i16 model.mlir`.
    """

    name = "assign-output-types"
    STEPS = ("output-types",)


@dataclass(frozen=True)
class WriteQuantizedPass(AssignmentPass):
    """
    Write the assignment in attributes as `quant.qcast` and `quant.dcast`, and drop the attributes.

    Requantizations that change nothing are left out.

    Example: `qdialect-opt --attach-ranges=profile=profile.json --assign-activations
    --write-quantized model.mlir`.
    """

    name = "write-quantized"
    STEPS = ("redundant-quantize",)
    IS_WRITTEN = True
