// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: @both_axes(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4x?xi8>
// CHECK-NEXT:      %1 = arith.constant 1 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<4x?xi8>
// CHECK-NEXT:      %3 = arith.constant 3 : index
// CHECK-NEXT:      %4 = arith.constant -1 : index
// CHECK-NEXT:      %5 = arith.addi %2, %4 : index
// CHECK-NEXT:      %6 = tensor.empty(%2) : tensor<4x?xi8>
// CHECK-NEXT:      %v = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%6 : tensor<4x?xi8>) {
// CHECK-NEXT:      ^bb0(%7: i8):
// CHECK-NEXT:        %8 = linalg.index 0 : index
// CHECK-NEXT:        %9 = arith.subi %3, %8 : index
// CHECK-NEXT:        %10 = linalg.index 1 : index
// CHECK-NEXT:        %11 = arith.subi %5, %10 : index
// CHECK-NEXT:        %12 = tensor.extract %0[%9, %11] : tensor<4x?xi8>
// CHECK-NEXT:        linalg.yield %12 : i8
// CHECK-NEXT:      } -> tensor<4x?xi8>
// CHECK-NEXT:      %13 = quant.scast %v : tensor<4x?xi8> to tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %13 : tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @both_axes(%x: tensor<4x?x!p>) -> tensor<4x?x!p> {
  %v = quant.reverse %x dims = [0, 1] : tensor<4x?x!p> to tensor<4x?x!p>
  return %v : tensor<4x?x!p>
}

// Nothing moves.
// CHECK-LABEL: @one_position(
// CHECK-NEXT:      func.return %x : tensor<1x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @one_position(%x: tensor<1x3x!p>) -> tensor<1x3x!p> {
  %v = quant.reverse %x dims = [0] : tensor<1x3x!p> to tensor<1x3x!p>
  return %v : tensor<1x3x!p>
}
