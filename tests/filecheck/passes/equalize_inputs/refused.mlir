// RUN: qdialect-opt %s --equalize-inputs --verify-diagnostics --remarks | filecheck %s

// What is asked for and cannot be done is told, and changes nothing.
// CHECK-LABEL: @refused
// CHECK-NOT: quant.float
func.func @refused(%x: tensor<3x2xf32>, %v: tensor<2x2xf32>, %q: tensor<3x2x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [4.0, -8.0]]> : tensor<2x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x2xf32>
  %xs = quant.stats %x {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>} : tensor<3x2xf32>
  // expected-remark @+1 {{not equalized: the record of its input 'x' has one range along axis 1, but one for each index is needed; 'qdialect-calibrate --channels' records one axis of a value, and a second 'quant.stats' can hold another one [no-record]}}
  %whole = linalg.matmul ins(%xs, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = math.sin %whole : tensor<3x2xf32>
  // expected-remark @+1 {{not equalized: there is no record of its input 'r' [no-record]}}
  %sums = linalg.matmul ins(%r, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  %d = quant.dcast %q : tensor<3x2x!quant.uniform<i8:f32, 0.5>> to tensor<3x2xf32>
  // expected-remark @+1 {{not equalized: its input is quantized [quantized]}}
  %quantized = linalg.matmul ins(%d, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{not equalized: neither of its operands is constant [not-constant]}}
  %shared = linalg.matmul ins(%xs, %v : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %sums, %quantized, %shared : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

// Two layers read a value along different axes, each of which has a record.
// CHECK-LABEL: @two_axes
func.func @two_axes(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [4.0, -8.0]]> : tensor<2x2xf32>
  %v = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, -8.0, 5.0]]> : tensor<2x3xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x2xf32>
  %few = arith.constant dense<0.0> : tensor<2x2xf32>
  %0 = quant.stats %x {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>, axis = 1 : i64, axisStats = dense<[[-8.0, 8.0], [0.0, 1.0]]> : tensor<2x2xf32>} : tensor<3x2xf32>
  %1 = quant.stats %0 {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>, axis = 0 : i64, axisStats = dense<[[-8.0, 8.0], [0.0, 1.0], [0.0, 2.0]]> : tensor<3x2xf32>} : tensor<3x2xf32>
  // expected-remark @+1 {{equalized 'linalg.matmul': its input is scaled by}}
  %columns = linalg.matmul ins(%1, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{equalized 'linalg.matmul': its input is scaled by}}
  %rows = linalg.matmul ins(%v, %1 : tensor<2x3xf32>, tensor<3x2xf32>) outs(%few : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %columns, %rows : tensor<3x2xf32>, tensor<2x2xf32>
}
