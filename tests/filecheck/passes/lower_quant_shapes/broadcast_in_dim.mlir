// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: @repeat(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<4x1x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<4x1xi8>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<2x5x4xi8>
// CHECK-NEXT:      %d = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2, 0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0 : tensor<4x1xi8>) outs(%1 : tensor<2x5x4xi8>) {
// CHECK-NEXT:      ^bb0(%2: i8, %3: i8):
// CHECK-NEXT:        linalg.yield %2 : i8
// CHECK-NEXT:      } -> tensor<2x5x4xi8>
// CHECK-NEXT:      %4 = quant.scast %d : tensor<2x5x4xi8> to tensor<2x5x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %4 : tensor<2x5x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @repeat(%x: tensor<4x1x!p>) -> tensor<2x5x4x!p> {
  %d = quant.broadcast_in_dim %x dims = [2, 0] : tensor<4x1x!p> to tensor<2x5x4x!p>
  return %d : tensor<2x5x4x!p>
}

// A dynamic length is kept.
// CHECK-LABEL: @dynamic(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x1x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x1xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x1xi8>
// CHECK-NEXT:      %3 = tensor.empty(%2) : tensor<2x?xi8>
// CHECK-NEXT:      %d = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<?x1xi8>) outs(%3 : tensor<2x?xi8>) {
// CHECK-NEXT:      ^bb0(%4: i8, %5: i8):
// CHECK-NEXT:        linalg.yield %4 : i8
// CHECK-NEXT:      } -> tensor<2x?xi8>
// CHECK-NEXT:      %6 = quant.scast %d : tensor<2x?xi8> to tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %6 : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @dynamic(%x: tensor<?x1x!p>) -> tensor<2x?x!p> {
  %d = quant.broadcast_in_dim %x dims = [1, 0] : tensor<?x1x!p> to tensor<2x?x!p>
  return %d : tensor<2x?x!p>
}

// It may be one, or that of the result.
// CHECK-LABEL: @undecided(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x1x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x1xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x1xi8>
// CHECK-NEXT:      %3 = arith.constant -1 : index
// CHECK-NEXT:      %4 = arith.addi %2, %3 : index
// CHECK-NEXT:      %5 = tensor.empty() : tensor<4x3xi8>
// CHECK-NEXT:      %d = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%5 : tensor<4x3xi8>) {
// CHECK-NEXT:      ^bb0(%6: i8):
// CHECK-NEXT:        %7 = linalg.index 0 : index
// CHECK-NEXT:        %8 = arith.minui %7, %4 : index
// CHECK-NEXT:        %9 = arith.constant 0 : index
// CHECK-NEXT:        %10 = tensor.extract %0[%8, %9] : tensor<?x1xi8>
// CHECK-NEXT:        linalg.yield %10 : i8
// CHECK-NEXT:      } -> tensor<4x3xi8>
// CHECK-NEXT:      %11 = quant.scast %d : tensor<4x3xi8> to tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %11 : tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @undecided(%x: tensor<?x1x!p>) -> tensor<4x3x!p> {
  %d = quant.broadcast_in_dim %x dims = [0, 1] : tensor<?x1x!p> to tensor<4x3x!p>
  return %d : tensor<4x3x!p>
}
