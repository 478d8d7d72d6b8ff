// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes=verify=values | filecheck %s

// Shape ops of ONNX that read positions, widths and numbers of repetitions from constants.

// CHECK-LABEL: @gather
// CHECK-NEXT: %w = "onnx.Constant"() {value = dense<{{\[\[}}5, 3, 1], [6, 4, 2]]> : tensor<2x3xi8>}
// CHECK-NEXT: %s = "onnx.Constant"() {value = dense<[4.000000e+00, 2.000000e+00, 1.000000e+00]> : tensor<3xf32>}
// CHECK-NEXT: %d = "onnx.DequantizeLinear"(%w, %s) {axis = 1 : si64}
// CHECK-NEXT: return %d
func.func @gather() -> tensor<2x3xf32> {
  %w = "onnx.Constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
  %s = "onnx.Constant"() {value = dense<[1.0, 2.0, 4.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %d = "onnx.DequantizeLinear"(%w, %s) {axis = 0 : si64} : (tensor<3x2xi8>, tensor<3xf32>) -> tensor<3x2xf32>
  %i = "onnx.Constant"() {value = dense<[2, -2, 0]> : tensor<3xi64>} : () -> tensor<3xi64>
  %g = "onnx.Gather"(%d, %i) {axis = 0 : si64} : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %t = "onnx.Transpose"(%g) {perm = [1, 0]} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %t : tensor<2x3xf32>
}

// A position that is not there is left.
// CHECK-LABEL: @outside
// CHECK: "onnx.Gather"
func.func @outside() -> tensor<1x2xf32> {
  %w = "onnx.Constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
  %s = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %d = "onnx.DequantizeLinear"(%w, %s) : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %i = "onnx.Constant"() {value = dense<-4> : tensor<1xi64>} : () -> tensor<1xi64>
  %g = "onnx.Gather"(%d, %i) : (tensor<3x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  return %g : tensor<1x2xf32>
}

// Real zero is the zero point, and plain numbers are padded with zero.
// CHECK-LABEL: @pad
// CHECK-NEXT: %w = "onnx.Constant"() {value = dense<{{\[\[}}1, 2, 7], [3, 4, 9]]> : tensor<2x3xi8>}
// CHECK: %i = "onnx.Constant"() {value = dense<[0, 5]> : tensor<2xi32>}
// CHECK-NOT: onnx.Pad
func.func @pad() -> (tensor<2x3xf32>, tensor<2xi32>) {
  %w = "onnx.Constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>} : () -> tensor<2x2xi8>
  %s = "onnx.Constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = "onnx.Constant"() {value = dense<[7, 9]> : tensor<2xi8>} : () -> tensor<2xi8>
  %d = "onnx.DequantizeLinear"(%w, %s, %z) {axis = 0 : si64} : (tensor<2x2xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x2xf32>
  %n = "onnx.Constant"() {value = dense<[0, 0, 0, 1]> : tensor<4xi64>} : () -> tensor<4xi64>
  %p = "onnx.Pad"(%d, %n) : (tensor<2x2xf32>, tensor<4xi64>) -> tensor<2x3xf32>
  %i = "onnx.Constant"() {value = dense<5> : tensor<1xi32>} : () -> tensor<1xi32>
  %m = "onnx.Constant"() {value = dense<[1, 0]> : tensor<2xi64>} : () -> tensor<2xi64>
  %q = "onnx.Pad"(%i, %m) : (tensor<1xi32>, tensor<2xi64>) -> tensor<2xi32>
  return %p, %q : tensor<2x3xf32>, tensor<2xi32>
}

// CHECK-LABEL: @edge
// CHECK: "onnx.Pad"
func.func @edge() -> tensor<3xf32> {
  %w = "onnx.Constant"() {value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<2xi8>
  %s = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %d = "onnx.DequantizeLinear"(%w, %s) : (tensor<2xi8>, tensor<f32>) -> tensor<2xf32>
  %n = "onnx.Constant"() {value = dense<[0, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %p = "onnx.Pad"(%d, %n) {mode = "edge"} : (tensor<2xf32>, tensor<2xi64>) -> tensor<3xf32>
  return %p : tensor<3xf32>
}

// The arithmetic is done in blocks, and a reshape with a new shape is after it.
// CHECK-LABEL: @blocks
// CHECK: "onnx.Mul"(%{{.*}}) {{.*}}tensor<2x2x1xf32>
// CHECK-NEXT: %[[S:.*]] = "onnx.Constant"() {value = dense<[4, 1]> : tensor<2xi64>}
// CHECK-NEXT: %[[R:.*]] = "onnx.Reshape"(%{{.*}}, %[[S]])
// CHECK-NEXT: return %[[R]]
func.func @blocks() -> tensor<4x1xf32> {
  %w = "onnx.Constant"() {value = dense<[[[1, 2], [3, 4]]]> : tensor<1x2x2xi8>} : () -> tensor<1x2x2xi8>
  %s = "onnx.Constant"() {value = dense<[[[0.5], [0.25]]]> : tensor<1x2x1xf32>} : () -> tensor<1x2x1xf32>
  %c = "onnx.Cast"(%w) {to = 1 : si64} : (tensor<1x2x2xi8>) -> tensor<1x2x2xf32>
  %m = "onnx.Mul"(%c, %s) : (tensor<1x2x2xf32>, tensor<1x2x1xf32>) -> tensor<1x2x2xf32>
  %n = "onnx.Constant"() {value = dense<[1, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %r = "onnx.Reshape"(%m, %n) : (tensor<1x2x2xf32>, tensor<2xi64>) -> tensor<1x4xf32>
  %t = "onnx.Transpose"(%r) {perm = [1, 0]} : (tensor<1x4xf32>) -> tensor<4x1xf32>
  return %t : tensor<4x1xf32>
}

// Channels become blocks of positions: the channels of a position are first, or last.
// CHECK-LABEL: @depth_to_space
// CHECK: dense<{{\[\[\[\[}}1, 7, 2, 8, 3, 9], [13, 19, 14, 20, 15, 21]], {{\[\[}}4, 10, 5, 11, 6, 12], [16, 22, 17, 23, 18, 24]]]]> : tensor<1x2x2x6xi8>
// CHECK: dense<{{\[\[\[\[}}1, 4, 2, 5, 3, 6], [7, 10, 8, 11, 9, 12]], {{\[\[}}13, 16, 14, 17, 15, 18], [19, 22, 20, 23, 21, 24]]]]> : tensor<1x2x2x6xi8>
// CHECK-NOT: DepthToSpace
func.func @depth_to_space() -> (tensor<1x2x2x6xf32>, tensor<1x2x2x6xf32>) {
  %w = "onnx.Constant"() {value = dense<[[[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[10, 11, 12]], [[13, 14, 15]], [[16, 17, 18]], [[19, 20, 21]], [[22, 23, 24]]]]> : tensor<1x8x1x3xi8>} : () -> tensor<1x8x1x3xi8>
  %s = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %d = "onnx.DequantizeLinear"(%w, %s) : (tensor<1x8x1x3xi8>, tensor<f32>) -> tensor<1x8x1x3xf32>
  %r = "onnx.DepthToSpace"(%d) {blocksize = 2 : si64} : (tensor<1x8x1x3xf32>) -> tensor<1x2x2x6xf32>
  %q = "onnx.DepthToSpace"(%d) {blocksize = 2 : si64, mode = "CRD"} : (tensor<1x8x1x3xf32>) -> tensor<1x2x2x6xf32>
  return %r, %q : tensor<1x2x2x6xf32>, tensor<1x2x2x6xf32>
}

// CHECK-LABEL: @space_to_depth
// CHECK: dense<{{\[\[\[\[}}1, 2, 3]], {{\[\[}}4, 5, 6]], {{\[\[}}7, 8, 9]], {{\[\[}}10, 11, 12]]
// CHECK: onnx.DequantizeLinear
// CHECK-NEXT: return
func.func @space_to_depth() -> tensor<1x4x1x3xf32> {
  %w = "onnx.Constant"() {value = dense<[[[[1, 4, 2, 5, 3, 6], [7, 10, 8, 11, 9, 12]]]]> : tensor<1x1x2x6xi8>} : () -> tensor<1x1x2x6xi8>
  %s = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %d = "onnx.DequantizeLinear"(%w, %s) : (tensor<1x1x2x6xi8>, tensor<f32>) -> tensor<1x1x2x6xf32>
  %r = "onnx.SpaceToDepth"(%d) {blocksize = 2 : si64} : (tensor<1x1x2x6xf32>) -> tensor<1x4x1x3xf32>
  return %r : tensor<1x4x1x3xf32>
}

// An odd number of rows is no whole number of blocks, and there is no such mode.
// CHECK-LABEL: @no_blocks
// CHECK: "onnx.SpaceToDepth"
// CHECK: "onnx.DepthToSpace"
func.func @no_blocks() -> (tensor<1x4x1x1xi8>, tensor<1x1x2x6xi8>) {
  %w = "onnx.Constant"() {value = dense<1> : tensor<1x1x3x2xi8>} : () -> tensor<1x1x3x2xi8>
  %r = "onnx.SpaceToDepth"(%w) {blocksize = 2 : si64} : (tensor<1x1x3x2xi8>) -> tensor<1x4x1x1xi8>
  %v = "onnx.Constant"() {value = dense<[[[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[10, 11, 12]]]]> : tensor<1x4x1x3xi8>} : () -> tensor<1x4x1x3xi8>
  %q = "onnx.DepthToSpace"(%v) {blocksize = 2 : si64, mode = "RDC"} : (tensor<1x4x1x3xi8>) -> tensor<1x1x2x6xi8>
  return %r, %q : tensor<1x4x1x1xi8>, tensor<1x1x2x6xi8>
}

// A product of one factor is malformed, and is left.
// CHECK-LABEL: @one_factor
// CHECK: "onnx.Transpose"
func.func @one_factor() -> tensor<2x1xf32> {
  %w = "onnx.Constant"() {value = dense<[[1, 2]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %c = "onnx.Cast"(%w) {to = 1 : si64} : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %m = "onnx.Mul"(%c) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %t = "onnx.Transpose"(%m) {perm = [1, 0]} : (tensor<1x2xf32>) -> tensor<2x1xf32>
  return %t : tensor<2x1xf32>
}
