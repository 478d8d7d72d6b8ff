// Operands that are constants, or computed from constants, parametrize ops.
// RUN: qdialect-opt %s --fold-quant-shapes --allow-unregistered-dialect > %t
// RUN: filecheck %s < %t
// RUN: qdialect-check --allow-unregistered-dialect %s %t

// CHECK:         %w = arith.constant dense<[{{\[}}7, 8, 9], [10, 11, 12]]> : tensor<2x3xi8>
// CHECK-NEXT:    %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32:0, {3.000000e+00,4.000000e+00}>>
// CHECK-NEXT:    %d = quant.dcast %q
// CHECK-NEXT:    %w_1 = arith.constant dense<[{{\[}}1, 2, 3], [77, 77, 77], [77, 77, 77], [10, 11, 12]]> : tensor<4x3xi8>
// CHECK-NEXT:    %q_1 = quant.scast %w_1
// CHECK-NEXT:    %w_2 = arith.constant dense<[{{\[}}7, 8, 9], [10, 11, 12]]> : tensor<2x3xi8>
// CHECK-NEXT:    %q1 = quant.scast %w_2
// CHECK-NEXT:    %w_3 = arith.constant dense<[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<12xi8>
// CHECK-NEXT:    %q1_1 = quant.scast %w_3
// CHECK-NEXT:    %w_4 = arith.constant dense<[{{\[}}[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], {{\[}}[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]]> : tensor<2x4x3xi8>
// CHECK-NEXT:    %q1_2 = quant.scast %w_4
// CHECK-NEXT:    %w_5 = arith.constant dense<[{{\[}}0, 0, 0, 0], [0, 1, 2, 3], [0, 4, 5, 6], [0, 7, 8, 9], [0, 10, 11, 12]]> : tensor<5x4xi8>
// CHECK-NEXT:    %q1_3 = quant.scast %w_5
// CHECK-NEXT:    %w_6 = arith.constant dense<[{{\[}}5, 6], [11, 12]]> : tensor<2x2xi8>
// CHECK-NEXT:    %q1_4 = quant.scast %w_6
// CHECK-NEXT:    func.return %d, %q_1, %q1, %q1_1, %q1_2, %q1_3, %q1_4
!rows = !quant.uniform<i8:f32:0, {1.0,2.0,3.0,4.0}>
!two = !quant.uniform<i8:f32:0, {2.0,3.0}>
!one = !quant.uniform<i8:f32, 2.0>
func.func @f() -> (tensor<2x3xf32>, tensor<4x3x!rows>, tensor<2x3x!one>, tensor<12x!one>, tensor<2x4x3x!one>, tensor<5x4x!one>, tensor<2x2x!one>) {
  %w = "arith.constant"() <{value = dense<[[1,2,3],[4,5,6],[7,8,9],[10,11,12]]> : tensor<4x3xi8>}> : () -> tensor<4x3xi8>
  %q = "quant.scast"(%w) : (tensor<4x3xi8>) -> tensor<4x3x!rows>
  %q1 = "quant.scast"(%w) : (tensor<4x3xi8>) -> tensor<4x3x!one>
  %d = "quant.dcast"(%q) : (tensor<4x3x!rows>) -> tensor<4x3xf32>
  %c1 = "arith.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
  %c9 = "stablehlo.add"(%c1, %c1) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %c5 = "stablehlo.multiply"(%c9, %c9) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %0 = "stablehlo.dynamic_slice"(%d, %c5, %c1) <{slice_sizes = array<i64: 2, 3>}> : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %u = "quant.scast"(%u0) : (tensor<2x3xi8>) -> tensor<2x3x!two>
  %u0 = "arith.constant"() <{value = dense<77> : tensor<2x3xi8>}> : () -> tensor<2x3xi8>
  %1 = "stablehlo.dynamic_update_slice"(%q, %u, %c1, %c5) : (tensor<4x3x!rows>, tensor<2x3x!two>, tensor<i32>, tensor<i32>) -> tensor<4x3x!rows>
  %i = "arith.constant"() <{value = 2 : index}> : () -> index
  %2 = "tensor.extract_slice"(%q1, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 0>, static_sizes = array<i64: 2, 3>, static_strides = array<i64: 1, 1>}> : (tensor<4x3x!one>, index) -> tensor<2x3x!one>
  %s = "arith.constant"() <{value = dense<12> : tensor<1xi32>}> : () -> tensor<1xi32>
  %3 = "stablehlo.dynamic_reshape"(%q1, %s) : (tensor<4x3x!one>, tensor<1xi32>) -> tensor<12x!one>
  %s3 = "arith.constant"() <{value = dense<[2,4,3]> : tensor<3xi32>}> : () -> tensor<3xi32>
  %4 = "stablehlo.dynamic_broadcast_in_dim"(%q1, %s3) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<4x3x!one>, tensor<3xi32>) -> tensor<2x4x3x!one>
  %l1 = "arith.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>
  %l0 = "arith.constant"() <{value = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
  %z = "quant.scast"(%z0) : (tensor<i8>) -> tensor<!one>
  %z0 = "arith.constant"() <{value = dense<0> : tensor<i8>}> : () -> tensor<i8>
  %5 = "stablehlo.dynamic_pad"(%q1, %z, %l1, %l0, %l0) : (tensor<4x3x!one>, tensor<!one>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<5x4x!one>
  %li = "arith.constant"() <{value = dense<[4,3]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %st = "arith.constant"() <{value = dense<[2,1]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %6 = "stablehlo.real_dynamic_slice"(%q1, %l1, %li, %st) : (tensor<4x3x!one>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2x!one>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xf32>, tensor<4x3x!rows>, tensor<2x3x!one>, tensor<12x!one>, tensor<2x4x3x!one>, tensor<5x4x!one>, tensor<2x2x!one>
}

// A start that is known at run time only.
// CHECK-LABEL: @run_time
// CHECK:         stablehlo.dynamic_slice{{.*}}%q, %i
func.func @run_time(%i: tensor<i32>) -> tensor<2x!one> {
  %w = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi8>
  %q = quant.scast %w : tensor<4xi8> to tensor<4x!one>
  %0 = "stablehlo.dynamic_slice"(%q, %i) <{slice_sizes = array<i64: 2>}> : (tensor<4x!one>, tensor<i32>) -> tensor<2x!one>
  return %0 : tensor<2x!one>
}

// JAX converts the padding.
// CHECK-LABEL: @converted_padding
// CHECK-NEXT:    %w = arith.constant dense<[0.000000e+00, 1.000000e+00, 2.000000e+00, 0.000000e+00]> : tensor<4xf32>
// CHECK-NEXT:    func.return %w
func.func @converted_padding() -> tensor<4xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = arith.constant dense<0> : tensor<i32>
  %0 = "stablehlo.convert"(%c) : (tensor<i32>) -> tensor<f32>
  %1 = "stablehlo.pad"(%w, %0) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
