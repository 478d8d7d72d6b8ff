// Every reason, by its code.
// RUN: qdialect-opt %s --fold-quant-shapes --remarks --verify-diagnostics --split-input-file --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: @not_constant
func.func @not_constant(%x: tensor<2x3xi8>) -> (tensor<6xi8>, tensor<6xi8>, tensor<3x2xi8>) {
  // expected-remark @below {{not folded: operand #0 is an argument [not-constant]}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  %sum = arith.addi %x, %x : tensor<2x3xi8>
  // expected-remark @below {{not folded: operand #0 is made by 'arith.addi', which is not a constant [not-constant]}}
  %1 = tensor.collapse_shape %sum [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  // expected-remark @below {{not folded: operand #0 is made by 'tensor.collapse_shape', which is not folded [not-constant]}}
  %2 = tensor.expand_shape %0 [[0, 1]] output_shape [3, 2] : tensor<6xi8> into tensor<3x2xi8>
  // CHECK: tensor.collapse_shape
  // CHECK: tensor.collapse_shape
  // CHECK: tensor.expand_shape
  return %0, %1, %2 : tensor<6xi8>, tensor<6xi8>, tensor<3x2xi8>
}

// -----

// A call is not followed: the remarks say what to run before.
// CHECK-LABEL: @called
func.func private @called(%x: tensor<2x3xi8>) -> tensor<6xi8> {
  // expected-remark @below {{not folded: operand #0 is an argument; '--inline' first may bring a constant [not-constant]}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  return %0 : tensor<6xi8>
}
func.func @calling() -> tensor<3x2xi8> {
  %w = arith.constant dense<1> : tensor<2x3xi8>
  %0 = call @called(%w) : (tensor<2x3xi8>) -> tensor<6xi8>
  // expected-remark @below {{not folded: operand #0 is made by 'func.call', which is not a constant; '--inline' first may bring one [not-constant]}}
  %1 = tensor.expand_shape %0 [[0, 1]] output_shape [3, 2] : tensor<6xi8> into tensor<3x2xi8>
  return %1 : tensor<3x2xi8>
}

// -----

// The blob was elided.
// CHECK-LABEL: @no_data
func.func @no_data() -> tensor<6xi8> {
  // CHECK: dense_resource<__elided__>
  %w = arith.constant dense_resource<__elided__> : tensor<2x3xi8>
  // expected-remark @below {{not folded: the data of its constant is missing [not-constant]}}
  %0 = tensor.collapse_shape %w [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  return %0 : tensor<6xi8>
}

// -----

// CHECK-LABEL: @dynamic_shape
func.func @dynamic_shape(%n: index) -> (tensor<?xi8>, tensor<2xi8>) {
  %w = arith.constant dense<[1, 2, 3]> : tensor<3xi8>
  // expected-remark @below {{not folded: an operand that must be constant is an argument [dynamic-shape]}}
  %0 = tensor.extract_slice %w[0] [%n] [1] : tensor<3xi8> to tensor<?xi8>
  // expected-remark @below {{not folded: an operand that must be constant is an argument [dynamic-shape]}}
  %1 = tensor.extract_slice %w[%n] [2] [1] : tensor<3xi8> to tensor<2xi8>
  return %0, %1 : tensor<?xi8>, tensor<2xi8>
}

// -----

// CHECK-LABEL: @unknown_op
func.func @unknown_op() -> (tensor<6xi8>, tensor<2xi8>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %x = "some.op"(%w) : (tensor<2x3xi8>) -> tensor<2x3xi8>
  // expected-remark @below {{not folded: operand #0 is made by 'some.op', which is not known to move elements [unknown-op]}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  %i = "stablehlo.constant"() <{value = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : () -> tensor<2x2xi64>
  // expected-remark @below {{not folded: it is not a take along one axis [unknown-op]}}
  %1 = "stablehlo.gather"(%w, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xi8>, tensor<2x2xi64>) -> tensor<2xi8>
  return %0, %1 : tensor<6xi8>, tensor<2xi8>
}

// -----

// CHECK-LABEL: @stale_type
!rows = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @stale_type() -> tensor<2x2x!rows> {
  %w = "tosa.const"() <{values = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!rows>
  // CHECK: tosa.transpose
  // expected-remark-re @below {{not folded: result element [0, 1] reads {{.*}} in its type, but {{.*}} [stale-type]}}
  %0 = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<2x2x!rows>) -> tensor<2x2x!rows>
  return %0 : tensor<2x2x!rows>
}

// -----

// Scales that no longer fit the length of their axis.
// CHECK-LABEL: @stale_length
!rows = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @stale_length() -> tensor<1x2x!rows> {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %q = quant.scast %w : tensor<2x2xi8> to tensor<2x2x!rows>
  // expected-remark @below {{quantized dimension size does not match number of scales [stale-type]}}
  %0 = tensor.extract_slice %q[0, 0] [1, 2] [1, 1] : tensor<2x2x!rows> to tensor<1x2x!rows>
  return %0 : tensor<1x2x!rows>
}

// -----

// Half a step of the second row cannot be stored in the first.
// CHECK-LABEL: @padding
!rows = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @padding() -> tensor<2x3xf32> {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %q = quant.scast %w : tensor<2x2xi8> to tensor<2x2x!rows>
  %f = quant.dcast %q : tensor<2x2x!rows> to tensor<2x2xf32>
  %quarter = arith.constant 0.25 : f32
  // expected-remark-re @below {{no integer dequantizes to 0.25 with scale 5.0{{0*}}e-01, zero point 0 [padding]}}
  %0 = tensor.pad %f low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %quarter : f32
  } : tensor<2x2xf32> to tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @mixed_constants
!q = !quant.uniform<i8:f32, 0.5>
func.func @mixed_constants() -> tensor<4xf32> {
  %w = arith.constant dense<[1, 2]> : tensor<2xi8>
  %q = quant.scast %w : tensor<2xi8> to tensor<2x!q>
  %f = quant.dcast %q : tensor<2x!q> to tensor<2xf32>
  %g = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-remark @below {{not folded: its operands are constants of different kinds, or behind different casts [mixed-constants]}}
  %0 = tensor.concat dim(0) %f, %g : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @granularity
!four = !quant.uniform<i8:f32:0, {0.5,0.25,1.0,2.0}>
func.func @granularity() -> tensor<2x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[1, 2, 3, 4]> : tensor<4xi8>}> : () -> tensor<4x!four>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<4x!four>) -> tensor<4xf32>
  // expected-remark @below {{not folded: its type is sub-channel, and per-axis is allowed; '--raise-dequantization' first removes it [granularity]}}
  %0 = "stablehlo.reshape"(%f) : (tensor<4xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// A row of the result is 2 elements long. 1024 scales are always allowed, 2048 are too many.
// CHECK-LABEL: @parameter_growth
!c = !quant.uniform<i8:f32:1, {0.5,0.25}>
func.func @parameter_growth() -> (tensor<1024x2xf32>, tensor<2048x2xf32>) {
  %w = arith.constant dense<1> : tensor<512x2x2xi8>
  %q = quant.scast %w : tensor<512x2x2xi8> to tensor<512x2x2x!c>
  %f = quant.dcast %q : tensor<512x2x2x!c> to tensor<512x2x2xf32>
  // expected-remark @below {{folded 'tensor.collapse_shape' into constant %w}}
  %0 = tensor.collapse_shape %f [[0, 1], [2]] : tensor<512x2x2xf32> into tensor<1024x2xf32>
  %v = arith.constant dense<1> : tensor<1024x2x2xi8>
  %p = quant.scast %v : tensor<1024x2x2xi8> to tensor<1024x2x2x!c>
  %g = quant.dcast %p : tensor<1024x2x2x!c> to tensor<1024x2x2xf32>
  // expected-remark @below {{not folded: it has 2048 scales, its sources have 2, and 1024 are allowed; it takes max-parameter-growth=2046 or more [parameter-growth]}}
  %1 = tensor.collapse_shape %g [[0, 1], [2]] : tensor<1024x2x2xf32> into tensor<2048x2xf32>
  return %0, %1 : tensor<1024x2xf32>, tensor<2048x2xf32>
}

// -----

// CHECK-LABEL: @illegal_type
!q = !quant.uniform<i8:f32, 0.5>
func.func @illegal_type() -> tensor<0xf32> {
  %w = "tosa.const"() <{values = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!q>
  %f = tosa.cast %w : (tensor<2x!q>) -> tensor<2xf32>
  // expected-remark @below {{not folded: tosa has no tensors without elements [illegal-type]}}
  %0 = tensor.extract_slice %f[0] [0] [1] : tensor<2xf32> to tensor<0xf32>
  return %0 : tensor<0xf32>
}
