// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt --fold-quant-shapes | filecheck %s

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>

// The float side: every op.
// CHECK-LABEL: @chain
// CHECK-NEXT: %w = "tosa.const"() <{values = dense<{{\[\[}}6, 3], [5, 2], [4, 1]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01}>>
// CHECK-NEXT: tosa.cast %w : (tensor<3x2x{{.*}}>) -> tensor<3x2xf32>
// CHECK-NEXT: return
func.func @chain() -> tensor<3x2xf32> {
  %w = "tosa.const"() <{values = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = tosa.cast %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %t = tosa.transpose %f {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r = tosa.reverse %t {axis = 0 : i32} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %s = tosa.reverse %r {axis = 1 : i32} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %s : tensor<3x2xf32>
}

// CHECK-LABEL: @reshape_splits_the_axis
// CHECK-NEXT: dense<{{\[\[\[}}1], [2]], {{\[\[}}3], [4]]]> : tensor<2x2x1xi8>}> : () -> tensor<2x2x1x!quant.uniform<i8:f32:{0:1, 1:1}
func.func @reshape_splits_the_axis() -> tensor<2x2x1xf32> {
  %w = "tosa.const"() <{values = dense<[1, 2, 3, 4]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<i8:f32:0, {0.5,0.25:3,1.0,2.0}>>
  %f = tosa.cast %w : (tensor<4x!quant.uniform<i8:f32:0, {0.5,0.25:3,1.0,2.0}>>) -> tensor<4xf32>
  %shape = tosa.const_shape {values = dense<[2, 2, 1]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %r = tosa.reshape %f, %shape : (tensor<4xf32>, !tosa.shape<3>) -> tensor<2x2x1xf32>
  return %r : tensor<2x2x1xf32>
}

// CHECK-LABEL: @slice
// CHECK-NEXT: dense<{{\[\[}}5, 6]]> : tensor<1x2xi8>}> : () -> tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NOT: tosa.const_shape
func.func @slice() -> tensor<1x2xf32> {
  %w = "tosa.const"() <{values = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = tosa.cast %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %start = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %size = tosa.const_shape {values = dense<[1, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %s = tosa.slice %f, %start, %size : (tensor<2x3xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x2xf32>
  return %s : tensor<1x2xf32>
}

// Two per-tensor constants of different scales: nothing is requantized.
// CHECK-LABEL: @concat
// CHECK-NEXT: dense<[1, 2, 3]> : tensor<3xi8>}> : () -> tensor<3x!quant.uniform<i8:f32:0, {5.000000e-01,5.000000e-01,2.500000e-01:3}>>
func.func @concat() -> tensor<3xf32> {
  %w = "tosa.const"() <{values = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %v = "tosa.const"() <{values = dense<[3]> : tensor<1xi8>}> : () -> tensor<1x!quant.uniform<i8:f32, 0.25:3>>
  %f = tosa.cast %w : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
  %g = tosa.cast %v : (tensor<1x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<1xf32>
  %c = tosa.concat %f, %g {axis = 0 : i32} : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %c : tensor<3xf32>
}

// Padding with zero is padding with the zero point of each row; 0.25 is one step of the second
// row, but only half of one of the first, so it cannot be stored there.
// CHECK-LABEL: @pad
// CHECK: dense<{{\[\[}}1, 2, 3, 0], [4, 5, 6, 3]]> : tensor<2x4xi8>}> : () -> tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK: tosa.pad
// CHECK-NEXT: return
func.func @pad() -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = "tosa.const"() <{values = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = tosa.cast %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %widths = tosa.const_shape {values = dense<[0, 0, 0, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %quarter = "tosa.const"() <{values = dense<0.25> : tensor<1xf32>}> : () -> tensor<1xf32>
  %p = tosa.pad %f, %widths, %zero : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = tosa.pad %f, %widths, %quarter : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<2x4xf32>
  return %p, %q : tensor<2x4xf32>, tensor<2x4xf32>
}

// CHECK-LABEL: @quantized_pad
// CHECK-NEXT: dense<[7, 1, 2]> : tensor<3xi8>}> : () -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @quantized_pad() -> tensor<3x!q> {
  %w = "tosa.const"() <{values = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!q>
  %widths = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %seven = "tosa.const"() <{values = dense<7> : tensor<1xi8>}> : () -> tensor<1x!q>
  %p = tosa.pad %w, %widths, %seven : (tensor<2x!q>, !tosa.shape<2>, tensor<1x!q>) -> tensor<3x!q>
  return %p : tensor<3x!q>
}

// CHECK-LABEL: @tile
// CHECK-NEXT: dense<{{\[\[}}1, 2, 1, 2], [3, 4, 3, 4], [1, 2, 1, 2], [3, 4, 3, 4]]> : tensor<4x4xi8>}> : () -> tensor<4x4x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,5.000000e-01,2.500000e-01:3}>>
func.func @tile() -> tensor<4x4xf32> {
  %w = "tosa.const"() <{values = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!rows>
  %f = tosa.cast %w : (tensor<2x2x!rows>) -> tensor<2x2xf32>
  %multiples = tosa.const_shape {values = dense<[2, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %t = tosa.tile %f, %multiples : (tensor<2x2xf32>, !tosa.shape<2>) -> tensor<4x4xf32>
  return %t : tensor<4x4xf32>
}

// CHECK-LABEL: @gather
// CHECK-NEXT: dense<{{\[\[\[}}5, 6], [1, 2], [5, 6]]]> : tensor<1x3x2xi8>}> : () -> tensor<1x3x2x!quant.uniform<i8:f32:1, {2.000000e+00,5.000000e-01,2.000000e+00}>>
func.func @gather() -> tensor<1x3x2xf32> {
  %w = "tosa.const"() <{values = dense<[[[1, 2], [3, 4], [5, 6]]]> : tensor<1x3x2xi8>}> : () -> tensor<1x3x2x!quant.uniform<i8:f32:1, {0.5,0.25:3,2.0}>>
  %f = tosa.cast %w : (tensor<1x3x2x!quant.uniform<i8:f32:1, {0.5,0.25:3,2.0}>>) -> tensor<1x3x2xf32>
  %i = "tosa.const"() <{values = dense<[[2, 0, 2]]> : tensor<1x3xi32>}> : () -> tensor<1x3xi32>
  %g = tosa.gather %f, %i : (tensor<1x3x2xf32>, tensor<1x3xi32>) -> tensor<1x3x2xf32>
  return %g : tensor<1x3x2xf32>
}

// The quantized side. MLIR's tosa.transpose wants equal element types, so the axis moves and the
// type does not: what it says of the result is not true, and nothing is folded.
// CHECK-LABEL: @quantized_side
// CHECK-DAG: dense<{{\[\[}}1, 2], [3, 4]]>
// CHECK: tosa.transpose
// CHECK: dense<{{\[\[}}1, 2, 3, 4]]> : tensor<1x4xi8>}> : () -> tensor<1x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @quantized_side() -> (tensor<2x2x!rows>, tensor<1x4x!q>) {
  %w = "tosa.const"() <{values = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!rows>
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<2x2x!rows>) -> tensor<2x2x!rows>
  %v = "tosa.const"() <{values = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!q>
  %shape = tosa.const_shape {values = dense<[1, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %r = tosa.reshape %v, %shape : (tensor<2x2x!q>, !tosa.shape<2>) -> tensor<1x4x!q>
  return %t, %r : tensor<2x2x!rows>, tensor<1x4x!q>
}
