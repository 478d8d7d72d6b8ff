// RUN: qdialect-opt %s --fold-quant-shapes --remarks 2>&1 | filecheck %s

// A map that reads an axis from its last position to the first reverses it, as torch-mlir flips. A map that does not
// begin at the last one takes a part of the axis.
// CHECK:       remark: folded 'linalg.generic' into constant %w
// CHECK:       remark: not folded: its indexing maps do more than name axes [unknown-op]
// CHECK-LABEL: @reversed
// CHECK-NEXT:    quant.constant dense<{{\[\[}}4, 1], [5, 2], [6, 3]]> : tensor<3x2x!quant.uniform<i8:f32:1, {2.500000e-01,5.000000e-01}>>
// CHECK-NEXT:    quant.dcast
// CHECK-NEXT:    return
func.func @reversed() -> tensor<3x2xf32> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %d = quant.dcast %w : tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (-j + 1, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// CHECK-LABEL: @shifted
// CHECK:         linalg.generic
func.func @shifted() -> tensor<2x2xf32> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %w : tensor<2x3x!quant.uniform<i8:f32, 0.5>> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, -j + 1)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<2x3xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
