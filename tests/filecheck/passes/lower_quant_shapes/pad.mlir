// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!padded = !quant.uniform<i8:f32:0, {0.5:3,0.5:3,0.25}>
!u = !quant.uniform<u4:f32, 0.5:13>
!blocks = !quant.uniform<i8:f32:{0:2, 1:1}, {{0.5:3,0.25},{1.0:1,2.0:2}}>
!more = !quant.uniform<i8:f32:{0:2, 1:1}, {{0.5:3,0.25},{1.0:1,2.0:2},{1.0:1,2.0:2}}>

// One zero point, as signless integer.
// CHECK-LABEL: @one_zero_point(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x3x!quant.uniform<u4:f32, 5.000000e-01:13>> to tensor<?x3xi4>
// CHECK-NEXT:      %1 = arith.constant -3 : i4
// CHECK-NEXT:      %p = tensor.pad %0 low[1, 0] high[0, 2] {
// CHECK-NEXT:      ^bb0(%2: index, %3: index):
// CHECK-NEXT:        tensor.yield %1 : i4
// CHECK-NEXT:      } : tensor<?x3xi4> to tensor<?x5xi4>
// CHECK-NEXT:      %4 = quant.scast %p : tensor<?x5xi4> to tensor<?x5x!quant.uniform<u4:f32, 5.000000e-01:13>>
// CHECK-NEXT:      func.return %4 : tensor<?x5x!quant.uniform<u4:f32, 5.000000e-01:13>>
func.func @one_zero_point(%x: tensor<?x3x!u>) -> tensor<?x5x!u> {
  %p = quant.pad %x low = [1, 0] high = [0, 2] : tensor<?x3x!u> to tensor<?x5x!u>
  return %p : tensor<?x5x!u>
}

// All new positions read the first slot.
// CHECK-LABEL: @one_edge(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>> to tensor<2x3xi8>
// CHECK-NEXT:      %1 = arith.constant 3 : i8
// CHECK-NEXT:      %p = tensor.pad %0 low[1, 0] high[0, 0] {
// CHECK-NEXT:      ^bb0(%2: index, %3: index):
// CHECK-NEXT:        tensor.yield %1 : i8
// CHECK-NEXT:      } : tensor<2x3xi8> to tensor<3x3xi8>
// CHECK-NEXT:      %4 = quant.scast %p : tensor<3x3xi8> to tensor<3x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:      func.return %4 : tensor<3x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,5.000000e-01:3,2.500000e-01}>>
func.func @one_edge(%x: tensor<2x3x!a>) -> tensor<3x3x!padded> {
  %p = quant.pad %x low = [1, 0] high = [0, 0] : tensor<2x3x!a> to tensor<3x3x!padded>
  return %p : tensor<3x3x!padded>
}

// Each slot has its own zero point.
// CHECK-LABEL: @per_axis(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x?x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>> to tensor<2x?xi8>
// CHECK-NEXT:      %1 = arith.constant dense<[{{\[}}3], [0]]> : tensor<2x1xi8>
// CHECK-NEXT:      %2 = arith.constant 1 : index
// CHECK-NEXT:      %3 = tensor.dim %0, %2 : tensor<2x?xi8>
// CHECK-NEXT:      %4 = arith.addi %3, %2 : index
// CHECK-NEXT:      %5 = tensor.empty(%4) : tensor<2x?xi8>
// CHECK-NEXT:      %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<2x1xi8>) outs(%5 : tensor<2x?xi8>) {
// CHECK-NEXT:      ^bb0(%7: i8, %8: i8):
// CHECK-NEXT:        linalg.yield %7 : i8
// CHECK-NEXT:      } -> tensor<2x?xi8>
// CHECK-NEXT:      %p = tensor.insert_slice %0 into %6[0, 1] [2, %3] [1, 1] : tensor<2x?xi8> into tensor<2x?xi8>
// CHECK-NEXT:      %9 = quant.scast %p : tensor<2x?xi8> to tensor<2x?x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:      func.return %9 : tensor<2x?x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
func.func @per_axis(%x: tensor<2x?x!a>) -> tensor<2x?x!a> {
  %p = quant.pad %x low = [0, 1] high = [0, 0] : tensor<2x?x!a> to tensor<2x?x!a>
  return %p : tensor<2x?x!a>
}

// CHECK-LABEL: @blocks(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{\{\{}}5.000000e-01:3, 2.500000e-01}, {1.000000e+00:1, 2.000000e+00:2}}>> to tensor<4x2xi8>
// CHECK-NEXT:      %1 = arith.constant dense<[{{\[}}3, 0], [1, 2], [1, 2]]> : tensor<3x2xi8>
// CHECK-NEXT:      %2 = tensor.empty() : tensor<6x2xi8>
// CHECK-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<3x2xi8>) outs(%2 : tensor<6x2xi8>) {
// CHECK-NEXT:      ^bb0(%4: i8, %5: i8):
// CHECK-NEXT:        linalg.yield %4 : i8
// CHECK-NEXT:      } -> tensor<6x2xi8>
// CHECK-NEXT:      %p = tensor.insert_slice %0 into %3[0, 0] [4, 2] [1, 1] : tensor<4x2xi8> into tensor<6x2xi8>
// CHECK-NEXT:      %6 = quant.scast %p : tensor<6x2xi8> to tensor<6x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{\{\{}}5.000000e-01:3, 2.500000e-01}, {1.000000e+00:1, 2.000000e+00:2}, {1.000000e+00:1, 2.000000e+00:2}}>>
// CHECK-NEXT:      func.return %6 : tensor<6x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{\{\{}}5.000000e-01:3, 2.500000e-01}, {1.000000e+00:1, 2.000000e+00:2}, {1.000000e+00:1, 2.000000e+00:2}}>>
func.func @blocks(%x: tensor<4x2x!blocks>) -> tensor<6x2x!more> {
  %p = quant.pad %x low = [0, 0] high = [2, 0] : tensor<4x2x!blocks> to tensor<6x2x!more>
  return %p : tensor<6x2x!more>
}

!columns = !quant.uniform<i8:f32:1, {0.5:3,0.25}>

// Nothing is inserted: the offset would be out of bounds.
// CHECK:         func.func @nothing(
// CHECK-NEXT:      %0 = arith.constant dense<{{\[\[}}3, 0]]> : tensor<1x2xi8>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4x2xi8>
// CHECK-NEXT:      %p = linalg.generic {{.*}} ins(%0 : tensor<1x2xi8>) outs(%1 : tensor<4x2xi8>) {
// CHECK-NEXT:      ^bb0(%2: i8, %3: i8):
// CHECK-NEXT:        linalg.yield %2 : i8
// CHECK-NEXT:      } -> tensor<4x2xi8>
// CHECK-NEXT:      %4 = quant.scast %p
func.func @nothing(%x: tensor<0x2x!columns>) -> tensor<4x2x!columns> {
  %p = quant.pad %x low = [4, 0] high = [0, 0] : tensor<0x2x!columns> to tensor<4x2x!columns>
  return %p : tensor<4x2x!columns>
}
