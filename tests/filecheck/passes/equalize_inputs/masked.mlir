// RUN: qdialect-opt %s --equalize-inputs="weights-only power-of-two" --remarks --verify-diagnostics | filecheck %s

// Factors pass a choice by a constant mask: what is masked is zero.
// CHECK:      %w = arith.constant dense<{{\[}}[1.000000e+00, 8.000000e+00]]>
// CHECK:      linalg.matmul {quant.equalized_weights}
// CHECK:      arith.select
// CHECK:      linalg.matmul {quant.equalized_weights}
func.func @masked(%x: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %w = arith.constant dense<[[1.0, 16.0]]> : tensor<1x2xf32>
  %v = arith.constant dense<[[1.0], [4.0]]> : tensor<2x1xf32>
  %mask = arith.constant dense<[[true, false], [true, true], [false, false]]> : tensor<3x2xi1>
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<3x2xf32>
  %init = arith.constant dense<0.0> : tensor<3x1xf32>
  // expected-remark @+2 {{its rows are scaled by 0.5 to}}
  // expected-remark @+1 {{its input is not the result of a layer}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x1xf32>, tensor<1x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]} ins(%0, %mask : tensor<3x2xf32>, tensor<3x2xi1>) outs(%zeros : tensor<3x2xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %chosen = arith.select %m, %a, %zero : f32
    linalg.yield %chosen : f32
  } -> tensor<3x2xf32>
  // expected-remark @+1 {{its input is scaled by 0.5 to}}
  %2 = linalg.matmul ins(%1, %v : tensor<3x2xf32>, tensor<2x1xf32>) outs(%init : tensor<3x1xf32>) -> tensor<3x1xf32>
  return %2 : tensor<3x1xf32>
}
