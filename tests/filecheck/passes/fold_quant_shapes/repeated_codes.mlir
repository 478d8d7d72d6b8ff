// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes="max-repetition=8" | filecheck %s

// Integers without a sign are codes of u3 by their bits: -2 is 6. All parts are the same code.

!q = !quant.uniform<u3:f32, 0.5>

// CHECK-LABEL: @joined
// CHECK-NEXT:    %a = quant.constant dense<6> : tensor<9x!quant.uniform<u3:f32, 5.000000e-01>>
// CHECK-NEXT:    %{{.*}} = quant.dcast %a
// CHECK-NEXT:    return
func.func @joined() -> tensor<9xf32> {
  %a = quant.constant dense<[6, 6]> : tensor<2x!q>
  %b = "stablehlo.constant"() <{value = dense<[-2, -2]> : tensor<2xi3>}> : () -> tensor<2x!q>
  %c = quant.dcast %a : tensor<2x!q> to tensor<2xf32>
  %d = quant.dcast %b : tensor<2x!q> to tensor<2xf32>
  %1 = "stablehlo.concatenate"(%c, %d) <{dimension = 0 : i64}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %e = quant.constant dense<6> : tensor<1x!q>
  %f = quant.dcast %e : tensor<1x!q> to tensor<1xf32>
  %2 = "stablehlo.concatenate"(%1, %f, %1) <{dimension = 0 : i64}> : (tensor<4xf32>, tensor<1xf32>, tensor<4xf32>) -> tensor<9xf32>
  return %2 : tensor<9xf32>
}
