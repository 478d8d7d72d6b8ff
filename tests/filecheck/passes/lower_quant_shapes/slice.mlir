// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>

// CHECK-LABEL: @strided(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<6x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<6x?xi8>
// CHECK-NEXT:      %s = tensor.extract_slice %0[1, 0] [2, 3] [3, 1] : tensor<6x?xi8> to tensor<2x3xi8>
// CHECK-NEXT:      %1 = quant.scast %s : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %1 : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @strided(%x: tensor<6x?x!p>) -> tensor<2x3x!p> {
  %s = quant.slice %x [1, 0] [2, 3] [3, 1] : tensor<6x?x!p> to tensor<2x3x!p>
  return %s : tensor<2x3x!p>
}

// MLIR accepts no offset at the end of an axis, even if nothing is taken.
// CHECK-LABEL: @no_elements(
// CHECK-NEXT:      %s = tensor.empty() : tensor<0x3xi8>
// CHECK-NEXT:      %0 = quant.scast %s : tensor<0x3xi8> to tensor<0x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %0 : tensor<0x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @no_elements(%x: tensor<6x3x!p>) -> tensor<0x3x!p> {
  %s = quant.slice %x [6, 0] [0, 3] [1, 1] : tensor<6x3x!p> to tensor<0x3x!p>
  return %s : tensor<0x3x!p>
}
