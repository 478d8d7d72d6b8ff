// RUN: qdialect-opt %s --equalize-inputs="power-of-two" --verify-diagnostics --remarks | filecheck %s
// RUN: qdialect-opt %s --equalize-inputs="strength=1.0" | filecheck %s --check-prefix=STRONG

// CHECK-LABEL: @product
// CHECK:         %0 = arith.constant dense<[2.500000e-01, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %1 = tensor.empty() : tensor<3x2xf32>
// CHECK-NEXT:    %x_equalized = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<3x2xf32>, tensor<2xf32>) outs(%1 : tensor<3x2xf32>) attrs = {{.*}}quant.float, quant.key = "x_equalized"
// CHECK:           arith.mulf
// CHECK:         %x_equalized_1 = quant.stats %x_equalized {{.*}}layerStats = dense<[-2.000000e+00, 2.000000e+00]>
// CHECK:         %w = quant.constant dense<{{\[\[}}127, 85], [127, -64]]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {0.094488188624382019,0.015748031437397003}>>
// CHECK-NEXT:    quant.dcast %w
// CHECK:         linalg.matmul {quant.equalized} ins(%x_equalized_1

// STRONG-LABEL: @product
// STRONG:         %0 = arith.constant dense<[6.250000e-02, 3.000000e+00]> : tensor<2xf32>
func.func @product(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %xs = quant.stats %x {layerStats = dense<[-8.0, 8.0]> : tensor<2xf32>, axisStats = dense<[[-8.0, 8.0], [-1.0, 1.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<3x2xf32>
  %w = quant.constant dense<[[6, 4], [4, -2]]> : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {0.5,1.0}>>
  %d = quant.dcast %w : tensor<2x2x!quant.uniform<i8<-127:127>:f32:0, {0.5,1.0}>> to tensor<2x2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x2xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{its weights are requantized}}
  %y = linalg.matmul ins(%xs, %d : tensor<3x2xf32>, tensor<2x2xf32>) outs(%i : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
