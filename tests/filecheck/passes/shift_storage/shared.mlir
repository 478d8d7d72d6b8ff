// RUN: qdialect-opt %s --shift-storage="from=i8 to=u8" | filecheck %s

!s = !quant.uniform<i8:f32, 0.5:-4>

// What else uses the integers sees those that they were, and two casts have one constant each.
// CHECK-LABEL: @shared
// CHECK-NEXT:    %k = arith.constant dense<[1, -128, 127]> : tensor<3xi8>
// CHECK-NEXT:    %k_1 = arith.constant dense<[-127, 0, -1]> : tensor<3xi8>
// CHECK-NEXT:    %q = quant.scast %k_1 : tensor<3xi8> to tensor<3x!quant.uniform<u8:f32, 5.000000e-01:124>>
// CHECK-NEXT:    %k_2 = arith.constant dense<[-127, 0, -1]> : tensor<3xi8>
// CHECK-NEXT:    %r = quant.scast %k_2 : tensor<3xi8> to tensor<3x!quant.uniform<u8:f32, 5.000000e-01:124>>
// CHECK-NEXT:    func.return %k, %q, %r
func.func @shared() -> (tensor<3xi8>, tensor<3x!s>, tensor<3x!s>) {
  %k = arith.constant dense<[1, -128, 127]> : tensor<3xi8>
  %q = quant.scast %k : tensor<3xi8> to tensor<3x!s>
  %r = quant.scast %k : tensor<3xi8> to tensor<3x!s>
  return %k, %q, %r : tensor<3xi8>, tensor<3x!s>, tensor<3x!s>
}
