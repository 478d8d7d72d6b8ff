// RUN: qdialect-opt %s --fold-constant-shapes --remarks --verify-diagnostics | filecheck %s

// The last element along a loop that reduces is no movement.
// CHECK: linalg.generic
func.func @last() -> tensor<3xf32> {
  %c = arith.constant dense<1.0> : tensor<3x4xf32>
  %e = tensor.empty() : tensor<3xf32>
  // expected-remark @+1 {{not folded: its loops are not parallel}}
  %0 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]} ins(%c : tensor<3x4xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
