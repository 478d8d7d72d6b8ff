// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>

// Axes are merged and split where others are not in the way.
// CHECK-LABEL: @split(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<6x4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<6x4xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %0 [{{\[}}0 : i64, 1 : i64], [2 : i64]] output_shape [2, 3, 4] : tensor<6x4xi8> into tensor<2x3x4xi8>
// CHECK-NEXT:      %1 = quant.scast %r : tensor<2x3x4xi8> to tensor<2x3x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %1 : tensor<2x3x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @split(%x: tensor<6x4x!p>) -> tensor<2x3x4x!p> {
  %r = quant.reshape %x : tensor<6x4x!p> to tensor<2x3x4x!p>
  return %r : tensor<2x3x4x!p>
}

// CHECK-LABEL: @merge(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x3x4xi8>
// CHECK-NEXT:      %r = tensor.collapse_shape %0 [{{\[}}0 : i64, 1 : i64], [2 : i64]] : tensor<2x3x4xi8> into tensor<6x4xi8>
// CHECK-NEXT:      %1 = quant.scast %r : tensor<6x4xi8> to tensor<6x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %1 : tensor<6x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @merge(%x: tensor<2x3x4x!p>) -> tensor<6x4x!p> {
  %r = quant.reshape %x : tensor<2x3x4x!p> to tensor<6x4x!p>
  return %r : tensor<6x4x!p>
}

// CHECK-LABEL: @both(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<6x4x5x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<6x4x5xi8>
// CHECK-NEXT:      %1 = tensor.collapse_shape %0 [{{\[}}0 : i64, 1 : i64], [2 : i64]] : tensor<6x4x5xi8> into tensor<24x5xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %1 [{{\[}}0 : i64, 1 : i64], [2 : i64]] output_shape [4, 6, 5] : tensor<24x5xi8> into tensor<4x6x5xi8>
// CHECK-NEXT:      %2 = quant.scast %r : tensor<4x6x5xi8> to tensor<4x6x5x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %2 : tensor<4x6x5x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @both(%x: tensor<6x4x5x!p>) -> tensor<4x6x5x!p> {
  %r = quant.reshape %x : tensor<6x4x5x!p> to tensor<4x6x5x!p>
  return %r : tensor<4x6x5x!p>
}

// CHECK-LABEL: @from_scalar(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<i8>
// CHECK-NEXT:      %1 = tensor.extract %0[] : tensor<i8>
// CHECK-NEXT:      %2 = tensor.from_elements %1 : tensor<1xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %2 [{{\[}}0 : i64, 1 : i64]] output_shape [1, 1] : tensor<1xi8> into tensor<1x1xi8>
// CHECK-NEXT:      %3 = quant.scast %r : tensor<1x1xi8> to tensor<1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @from_scalar(%x: tensor<!p>) -> tensor<1x1x!p> {
  %r = quant.reshape %x : tensor<!p> to tensor<1x1x!p>
  return %r : tensor<1x1x!p>
}

// CHECK-LABEL: @to_scalar(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x1x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x1xi8>
// CHECK-NEXT:      %1 = tensor.cast %0 : tensor<?x1xi8> to tensor<1x1xi8>
// CHECK-NEXT:      %r = tensor.collapse_shape %1 [] : tensor<1x1xi8> into tensor<i8>
// CHECK-NEXT:      %2 = quant.scast %r : tensor<i8> to tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %2 : tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @to_scalar(%x: tensor<?x1x!p>) -> tensor<!p> {
  %r = quant.reshape %x : tensor<?x1x!p> to tensor<!p>
  return %r : tensor<!p>
}

// CHECK-LABEL: @no_elements(
// CHECK-NEXT:      %r = tensor.empty() : tensor<5x0xi8>
// CHECK-NEXT:      %0 = quant.scast %r : tensor<5x0xi8> to tensor<5x0x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %0 : tensor<5x0x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @no_elements(%x: tensor<0x3x!p>) -> tensor<5x0x!p> {
  %r = quant.reshape %x : tensor<0x3x!p> to tensor<5x0x!p>
  return %r : tensor<5x0x!p>
}

// The dynamic length is the same.
// CHECK-LABEL: @same_length(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x6x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x6xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x6xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %0 [{{\[}}0 : i64], [1 : i64, 2 : i64]] output_shape [%2, 2, 3] : tensor<?x6xi8> into tensor<?x2x3xi8>
// CHECK-NEXT:      %3 = quant.scast %r : tensor<?x2x3xi8> to tensor<?x2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<?x2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @same_length(%x: tensor<?x6x!p>) -> tensor<?x2x3x!p> {
  %r = quant.reshape %x : tensor<?x6x!p> to tensor<?x2x3x!p>
  return %r : tensor<?x2x3x!p>
}

// It follows from the number of elements.
// CHECK-LABEL: @other_length(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x6x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x6xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x6xi8>
// CHECK-NEXT:      %3 = arith.constant 3 : index
// CHECK-NEXT:      %4 = arith.muli %2, %3 : index
// CHECK-NEXT:      %5 = arith.constant 2 : index
// CHECK-NEXT:      %6 = arith.divui %4, %5 : index
// CHECK-NEXT:      %7 = tensor.collapse_shape %0 [{{\[}}0 : i64, 1 : i64]] : tensor<?x6xi8> into tensor<?xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %7 [{{\[}}0 : i64, 1 : i64]] output_shape [4, %6] : tensor<?xi8> into tensor<4x?xi8>
// CHECK-NEXT:      %8 = quant.scast %r : tensor<4x?xi8> to tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %8 : tensor<4x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @other_length(%x: tensor<?x6x!p>) -> tensor<4x?x!p> {
  %r = quant.reshape %x : tensor<?x6x!p> to tensor<4x?x!p>
  return %r : tensor<4x?x!p>
}

// Only the result knows it.
// CHECK-LABEL: @known_length(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x?xi8>
// CHECK-NEXT:      %1 = tensor.collapse_shape %0 [{{\[}}0 : i64, 1 : i64]] : tensor<?x?xi8> into tensor<?xi8>
// CHECK-NEXT:      %2 = tensor.cast %1 : tensor<?xi8> to tensor<6xi8>
// CHECK-NEXT:      %r = tensor.expand_shape %2 [{{\[}}0 : i64, 1 : i64]] output_shape [2, 3] : tensor<6xi8> into tensor<2x3xi8>
// CHECK-NEXT:      %3 = quant.scast %r : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @known_length(%x: tensor<?x?x!p>) -> tensor<2x3x!p> {
  %r = quant.reshape %x : tensor<?x?x!p> to tensor<2x3x!p>
  return %r : tensor<2x3x!p>
}

// Only the operand knows it.
// CHECK-LABEL: @forgotten_length(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<6x4x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<6x4xi8>
// CHECK-NEXT:      %1 = tensor.collapse_shape %0 [{{\[}}0 : i64, 1 : i64]] : tensor<6x4xi8> into tensor<24xi8>
// CHECK-NEXT:      %2 = tensor.expand_shape %1 [{{\[}}0 : i64, 1 : i64]] output_shape [2, 12] : tensor<24xi8> into tensor<2x12xi8>
// CHECK-NEXT:      %r = tensor.cast %2 : tensor<2x12xi8> to tensor<2x?xi8>
// CHECK-NEXT:      %3 = quant.scast %r : tensor<2x?xi8> to tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @forgotten_length(%x: tensor<6x4x!p>) -> tensor<2x?x!p> {
  %r = quant.reshape %x : tensor<6x4x!p> to tensor<2x?x!p>
  return %r : tensor<2x?x!p>
}
