// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt --fold-quant-shapes | filecheck %s

// A weight per row, behind the casts, with tensor ops on the float side.
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>

// CHECK-LABEL: @reshape
// CHECK-NEXT: %w = arith.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi8>
// CHECK-NEXT: %q = quant.scast %w : tensor<6xi8> to tensor<6x!quant.uniform<i8:f32:{0:3}, {5.000000e-01, 2.500000e-01:3}>>
// CHECK-NEXT: %f = quant.dcast %q : {{.*}} to tensor<6xf32>
// CHECK-NEXT: return %f
func.func @reshape() -> tensor<6xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %f = quant.dcast %q : tensor<2x3x!rows> to tensor<2x3xf32>
  %shape = arith.constant dense<6> : tensor<1xi64>
  %r = tensor.reshape %f(%shape) : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// CHECK-LABEL: @expand_and_collapse
// CHECK-NEXT: arith.constant dense<{{\[\[\[}}1, 2, 3], [4, 5, 6]], {{\[\[}}7, 8, 9], [10, 11, 12]]]> : tensor<2x2x3xi8>
// CHECK-NEXT: to tensor<2x2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{.*}}5.000000e-01}, {2.500000e-01:3}}, {{.*}}1.000000e+00}, {2.000000e+00}}}>>
// CHECK: arith.constant dense<{{\[\[}}1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]> : tensor<2x6xi8>
// CHECK-NEXT: to tensor<2x6x!quant.uniform<i8:f32:{0:1, 1:3}, {{.*}}{5.000000e-01, 2.500000e-01:3}, {1.000000e+00, 2.000000e+00}}>>
!four = !quant.uniform<i8:f32:0, {0.5,0.25:3,1.0,2.0}>
func.func @expand_and_collapse() -> (tensor<2x2x3xf32>, tensor<2x6xf32>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]> : tensor<4x3xi8>
  %q = quant.scast %w : tensor<4x3xi8> to tensor<4x3x!four>
  %f = quant.dcast %q : tensor<4x3x!four> to tensor<4x3xf32>
  %e = tensor.expand_shape %f [[0, 1], [2]] output_shape [2, 2, 3] : tensor<4x3xf32> into tensor<2x2x3xf32>
  %c = tensor.collapse_shape %e [[0], [1, 2]] : tensor<2x2x3xf32> into tensor<2x6xf32>
  return %e, %c : tensor<2x2x3xf32>, tensor<2x6xf32>
}

// The slice loses an axis of one position, and with it all slots but one.
// CHECK-LABEL: @extract_slice
// CHECK-NEXT: arith.constant dense<[4, 6]> : tensor<2xi8>
// CHECK-NEXT: to tensor<2x!quant.uniform<i8:f32, 2.500000e-01:3>>
func.func @extract_slice() -> tensor<2xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %f = quant.dcast %q : tensor<2x3x!rows> to tensor<2x3xf32>
  %s = tensor.extract_slice %f[1, 0] [1, 2] [1, 2] : tensor<2x3xf32> to tensor<2xf32>
  return %s : tensor<2xf32>
}

// CHECK-LABEL: @concat
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK-NEXT: to tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @concat() -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1, 2]]> : tensor<1x2xi8>
  %v = arith.constant dense<[[3, 4]]> : tensor<1x2xi8>
  %p = quant.scast %w : tensor<1x2xi8> to tensor<1x2x!quant.uniform<i8:f32, 0.5>>
  %q = quant.scast %v : tensor<1x2xi8> to tensor<1x2x!quant.uniform<i8:f32, 0.25:3>>
  %f = quant.dcast %p : tensor<1x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2xf32>
  %g = quant.dcast %q : tensor<1x2x!quant.uniform<i8:f32, 0.25:3>> to tensor<1x2xf32>
  %c = tensor.concat dim(0) %f, %g : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}

// Zero is the zero point of each row. In the storage domain, 7 is 7.
// CHECK-LABEL: @pad
// CHECK-NEXT: arith.constant dense<{{\[\[}}0, 1, 2, 3], [3, 4, 5, 6]]> : tensor<2x4xi8>
// CHECK: arith.constant dense<{{\[\[}}7, 1, 2, 3], [7, 4, 5, 6]]> : tensor<2x4xi8>
// CHECK-NOT: tensor.pad
func.func @pad() -> (tensor<2x4xf32>, tensor<2x4xi8>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %f = quant.dcast %q : tensor<2x3x!rows> to tensor<2x3xf32>
  %zero = arith.constant 0.0 : f32
  %seven = arith.constant 7 : i8
  %p = tensor.pad %f low[0, 1] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<2x3xf32> to tensor<2x4xf32>
  %s = tensor.pad %w low[0, 1] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %seven : i8
  } : tensor<2x3xi8> to tensor<2x4xi8>
  return %p, %s : tensor<2x4xf32>, tensor<2x4xi8>
}

// CHECK-LABEL: @insert_slice
// CHECK-NEXT: arith.constant dense<{{\[\[}}1, 7, 3], [4, 8, 6]]> : tensor<2x3xi8>
// CHECK-NEXT: to tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{.*}}{5.000000e-01, 2.000000e+00, 5.000000e-01}, {2.500000e-01:3, 2.000000e+00, 2.500000e-01:3}}>>
func.func @insert_slice() -> tensor<2x3xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %f = quant.dcast %q : tensor<2x3x!rows> to tensor<2x3xf32>
  %v = arith.constant dense<[7, 8]> : tensor<2xi8>
  %p = quant.scast %v : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  %g = quant.dcast %p : tensor<2x!quant.uniform<i8:f32, 2.0>> to tensor<2xf32>
  %r = tensor.insert_slice %g into %f[0, 1] [2, 1] [1, 1] : tensor<2xf32> into tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// The quantized side: the type means the same where no cut axis moves.
// CHECK-LABEL: @quantized_side
// CHECK-NEXT: arith.constant dense<{{\[\[}}1], [4]]> : tensor<2x1xi8>
// CHECK-NEXT: to tensor<2x1x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: return
func.func @quantized_side() -> tensor<2x1x!rows> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %s = tensor.extract_slice %q[0, 0] [2, 1] [1, 1] : tensor<2x3x!rows> to tensor<2x1x!rows>
  return %s : tensor<2x1x!rows>
}

// Below the cast to storage, the quantized type behind it is made again.
// CHECK-LABEL: @storage_side
// CHECK-NEXT: %w = quant.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6x!quant.uniform<i8:f32:{0:3}, {5.000000e-01, 2.500000e-01:3}>>
// CHECK-NEXT: quant.scast %w : {{.*}} to tensor<6xi8>
func.func @storage_side() -> tensor<6xi8> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %s = quant.scast %w : tensor<2x3x!rows> to tensor<2x3xi8>
  %c = tensor.collapse_shape %s [[0, 1]] : tensor<2x3xi8> into tensor<6xi8>
  return %c : tensor<6xi8>
}
