// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// A sum of constants that is a constant now, since another op reads it, is read by a product.
// CHECK-DAG: %[[S:.*]] = arith.constant dense<[1.500000e+00, 2.250000e+00]> : tensor<2xf32>
// CHECK-DAG: %[[P:.*]] = arith.constant dense<[1.500000e+00, 4.500000e+00]> : tensor<2xf32>
// CHECK:     arith.addf %{{.*}}, %[[S]] : tensor<2xf32>
// CHECK:     arith.mulf %{{.*}}, %[[P]] : tensor<2xf32>
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %s = arith.addf %a, %b : tensor<2xf32>
  %p = arith.mulf %s, %a : tensor<2xf32>
  %u = arith.addf %x, %s : tensor<2xf32>
  %v = arith.mulf %y, %p : tensor<2xf32>
  return %u, %v : tensor<2xf32>, tensor<2xf32>
}
