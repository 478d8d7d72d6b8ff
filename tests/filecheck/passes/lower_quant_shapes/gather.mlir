// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:0, {0.25,0.5:3,0.25}>

// CHECK-LABEL: @rows(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x?x!quant.uniform<[[A:[^>]*]]>> to tensor<2x?xi8>
// CHECK-NEXT:      %1 = arith.constant 1 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<2x?xi8>
// CHECK-NEXT:      %3 = arith.constant dense<[1, 0, 1]> : tensor<3xindex>
// CHECK-NEXT:      %4 = tensor.empty(%2) : tensor<3x?xi8>
// CHECK-NEXT:      %g = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<3xindex>) outs(%4 : tensor<3x?xi8>) {
// CHECK-NEXT:      ^bb0(%5: index, %6: i8):
// CHECK-NEXT:        %7 = linalg.index 1 : index
// CHECK-NEXT:        %8 = tensor.extract %0[%5, %7] : tensor<2x?xi8>
// CHECK-NEXT:        linalg.yield %8 : i8
// CHECK-NEXT:      } -> tensor<3x?xi8>
// CHECK-NEXT:      %9 = quant.scast %g : tensor<3x?xi8> to tensor<3x?x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3,2.500000e-01}>>
func.func @rows(%x: tensor<2x?x!a>) -> tensor<3x?x!b> {
  %g = quant.gather %x [1, 0, 1] dim(0) : tensor<2x?x!a> to tensor<3x?x!b>
  return %g : tensor<3x?x!b>
}
