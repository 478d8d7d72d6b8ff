"""Every op that may have tensors of floats has a rule, or a reason to stay in floats."""

from __future__ import annotations

import pytest

from qdialect.ops.model import NOTHING, model_named

FLOAT_OPS = {
    # MLIR 22.
    "tosa": """
        abs add argmax avg_pool2d cast cast_from_block_scaled cast_to_block_scaled ceil clamp concat
        cond_if const conv2d conv3d cos custom depthwise_conv2d equal erf exp fft2d floor gather
        greater greater_equal identity log matmul matmul_t_block_scaled max_pool2d maximum minimum
        mul negate pad pow reciprocal reduce_max reduce_min reduce_product reduce_sum reshape resize
        reverse rfft2d rsqrt scatter select sigmoid sin slice sub tanh tile transpose
        transpose_conv2d variable variable_read variable_write while_loop
    """,
    "linalg": """
        abs add batch_matmul batch_matvec batch_mmt4d batch_reduce_matmul batch_vecmat broadcast
        ceil contract conv_1d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d conv_2d_nchw_fchw
        conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_nhwc_fhwc conv_2d_nhwc_hwcf
        conv_2d_nhwgc_gfhwc conv_3d conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf copy
        depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm
        depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwcm
        depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ndhwc_dhwcm div
        dot elementwise erf exp fill fill_rng_2d floor generic log map matmul matvec max min mmt4d
        mul negf pack pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum
        pooling_ndhwc_max pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_min
        pooling_nhwc_sum pooling_nwc_max pooling_nwc_min pooling_nwc_sum powf reciprocal reduce
        round rsqrt select softmax sqrt square sub tanh transpose unpack vecmat
        winograd_filter_transform
        winograd_input_transform winograd_output_transform
    """,
    "arith": """
        addf bitcast cmpf constant divf extf fptosi fptoui maximumf maxnumf minimumf minnumf mulf
        negf remf scaling_extf scaling_truncf select sitofp subf truncf uitofp
    """,
    "math": """
        absf acos acosh asin asinh atan atan2 atanh cbrt ceil clampf copysign cos cosh erf erfc exp
        exp2 expm1 floor fma fpowi isfinite isinf isnan isnormal log log10 log1p log2 powf round
        roundeven rsqrt sin sincos sinh sqrt tan tanh trunc
    """,
    "tensor": """
        bitcast cast collapse_shape concat expand_shape extract extract_slice from_elements gather
        generate insert insert_slice pad parallel_insert_slice reshape scatter splat
    """,
    # The versions that JAX 0.10 and torch-mlir of 2026 have.
    "stablehlo": """
        abs add all_gather all_reduce all_to_all async_done async_start atan2 batch_norm_grad
        batch_norm_inference batch_norm_training bitcast_convert broadcast broadcast_in_dim case
        cbrt ceil cholesky clamp collective_broadcast collective_permute compare complex composite
        concatenate constant convert convolution cosine cross-replica-sum custom_call divide dot
        dot_general dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_pad
        dynamic_reshape dynamic_slice dynamic_update_slice einsum exponential
        exponential_minus_one fft floor gather get_tuple_element if imag infeed is_finite log
        log_plus_one logistic map maximum minimum multiply negate optimization_barrier outfeed pad
        power real real_dynamic_slice recv reduce reduce_precision reduce_scatter reduce_window
        remainder reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt
        scatter select select_and_scatter send set_dimension_size sign sine slice sort sqrt subtract
        tan tanh torch_index_select transpose triangular_solve tuple unary_einsum
        uniform_dequantize uniform_quantize while
    """,
    "chlo": """
        _asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e broadcast_add broadcast_atan2
        broadcast_compare broadcast_complex broadcast_divide broadcast_maximum broadcast_minimum
        broadcast_multiply broadcast_next_after broadcast_polygamma broadcast_power
        broadcast_remainder broadcast_select broadcast_subtract broadcast_zeta conj constant
        constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma next_after
        polygamma ragged_dot scan sinh square tan top_k zeta
    """,
}
"""By dialect. Ops only on integers, and ops without operands or elements, are left out."""


@pytest.mark.parametrize(
    "name",
    [f"{dialect}.{name}" for dialect, names in FLOAT_OPS.items() for name in names.split()],
)
def test_every_float_op_is_known(name: str):
    model = model_named(name)
    is_read = model.reads_elements or model.product is not None
    assert is_read or model.rule is not None or model.stays_float is not None, name


def test_what_stays_in_floats_has_a_reason():
    for name in ("tosa.custom", "tosa.cond_if", "stablehlo.custom_call", "linalg.fill_rng_2d"):
        assert model_named(name).stays_float
    assert model_named("tosa.add").stays_float is None
    assert model_named("tosa.unheard_of") is NOTHING
