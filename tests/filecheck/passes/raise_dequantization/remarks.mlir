// RUN: qdialect-opt %s --raise-dequantization --remarks --verify-diagnostics | filecheck %s

// CHECK-LABEL: @raised
func.func @raised(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %w = arith.constant dense<[1, 2]> : tensor<2xi8>
  %s = arith.constant dense<0.5> : tensor<2xf32>
  %0 = arith.sitofp %w : tensor<2xi8> to tensor<2xf32>
  // expected-remark @below {{raised 'arith.mulf': it became 'quant.dcast'}}
  %1 = arith.mulf %0, %s : tensor<2xf32>
  // What is computed with it is nothing to tell of.
  // CHECK: arith.mulf
  %2 = arith.mulf %1, %s : tensor<2xf32>
  // CHECK: arith.mulf
  %3 = arith.mulf %x, %s : tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: @left
func.func @left() -> tensor<2xf32> {
  %w = arith.constant dense<[1, 2]> : tensor<2xi8>
  %s = arith.constant dense<[0.5, -0.5]> : tensor<2xf32>
  %z = arith.constant dense<0.5> : tensor<2xf32>
  %0 = arith.sitofp %w : tensor<2xi8> to tensor<2xf32>
  // CHECK: arith.mulf
  // expected-remark @below {{not raised: a scale is not positive and finite [arithmetic]}}
  %1 = arith.mulf %0, %s : tensor<2xf32>
  // expected-remark @below {{not raised: a zero point is not an integer [arithmetic]}}
  %2 = arith.subf %0, %z : tensor<2xf32>
  // CHECK: arith.mulf
  %3 = arith.mulf %2, %z : tensor<2xf32>
  // CHECK: arith.addf
  %4 = arith.addf %1, %3 : tensor<2xf32>
  return %4 : tensor<2xf32>
}
