// RUN: qdialect-opt %s --lower-dequantization=to=stablehlo | filecheck %s --check-prefix=STABLEHLO
// RUN: qdialect-opt %s --lower-dequantization=to=tosa | filecheck %s --check-prefix=TOSA
// RUN: qdialect-opt %s --lower-dequantization=to=linalg | filecheck %s --check-prefix=LINALG
// RUN: qdialect-opt %s --lower-dequantization=to=arith | filecheck %s --check-prefix=ARITH
// RUN: qdialect-opt %s --lower-dequantization=to=onnx | filecheck %s --check-prefix=ONNX

!tensor = !quant.uniform<i8:f32, 0.5>
!axis = !quant.uniform<i8:f32:1, {0.5:1,0.25}>
!blocks = !quant.uniform<i8:f32:{0:2}, {{0.5}, {0.25}}>

// STABLEHLO-LABEL: @tensor
// STABLEHLO-NEXT: %0 = stablehlo.convert %x : (tensor<2x2xi8>) -> tensor<2x2xf32>
// STABLEHLO-NEXT: %1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
// STABLEHLO-NEXT: %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
// STABLEHLO-NEXT: %r = stablehlo.multiply %0, %2
// STABLEHLO-NEXT: return %r
// TOSA-LABEL: @tensor
// TOSA-NEXT: %0 = tosa.cast %x : (tensor<2x2xi8>) -> tensor<2x2xf32>
// TOSA-NEXT: dense<5.000000e-01> : tensor<1x1xf32>
// TOSA-NEXT: dense<0> : tensor<1xi8>
// TOSA-NEXT: %r = tosa.mul %0, %1, %2
// LINALG-LABEL: @tensor
// LINALG: affine_map<(d0, d1) -> ()>
// ARITH-LABEL: @tensor
// ARITH-NEXT: %0 = arith.sitofp %x : tensor<2x2xi8> to tensor<2x2xf32>
// ARITH-NEXT: %1 = arith.constant dense<5.000000e-01> : tensor<2x2xf32>
// ARITH-NEXT: %r = arith.mulf %0, %1 : tensor<2x2xf32>
// ONNX-LABEL: @tensor
// ONNX: %1 = "onnx.NoValue"() <{value}> : () -> none
// ONNX-NEXT: %r = "onnx.DequantizeLinear"(%x, %0, %1) <{axis = 1 : si64}> : (tensor<2x2xi8>, tensor<f32>, none) -> tensor<2x2xf32>
func.func @tensor(%x: tensor<2x2xi8>) -> tensor<2x2xf32> {
  %0 = quant.scast %x : tensor<2x2xi8> to tensor<2x2x!tensor>
  %r = quant.dcast %0 : tensor<2x2x!tensor> to tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// STABLEHLO-LABEL: @axis
// STABLEHLO-NEXT: %0 = stablehlo.convert %x
// STABLEHLO-NEXT: dense<[1.000000e+00, 0.000000e+00]> : tensor<2xf32>
// STABLEHLO-NEXT: %2 = stablehlo.broadcast_in_dim %1, dims = [1]
// STABLEHLO-NEXT: %3 = stablehlo.subtract %0, %2
// STABLEHLO: %r = stablehlo.multiply %3, %5
// TOSA-LABEL: @axis
// TOSA: dense<{{\[\[}}1.000000e+00, 0.000000e+00]]> : tensor<1x2xf32>
// TOSA-NEXT: %2 = tosa.sub %0, %1
// LINALG-LABEL: @axis
// LINALG: affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>
// LINALG: arith.sitofp
// LINALG-NEXT: arith.subf
// LINALG-NEXT: arith.mulf
// ARITH-LABEL: @axis
// ARITH: linalg.broadcast {{.*}} dimensions = [0]
// ARITH-NEXT: arith.subf
// ARITH: linalg.broadcast {{.*}} dimensions = [0]
// ARITH-NEXT: arith.mulf
// ONNX-LABEL: @axis
// ONNX: %1 = "onnx.Constant"() <{value = dense<[1, 0]> : tensor<2xi8>}> : () -> tensor<2xi8>
// ONNX-NEXT: %r = "onnx.DequantizeLinear"(%x, %0, %1) <{axis = 1 : si64}>
func.func @axis(%x: tensor<2x2xi8>) -> tensor<2x2xf32> {
  %0 = quant.scast %x : tensor<2x2xi8> to tensor<2x2x!axis>
  %r = quant.dcast %0 : tensor<2x2x!axis> to tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// STABLEHLO-LABEL: @blocks
// STABLEHLO-NEXT: %0 = stablehlo.reshape %x : (tensor<4x3xi8>) -> tensor<2x2x3xi8>
// STABLEHLO: dims = [0] : (tensor<2xf32>) -> tensor<2x2x3xf32>
// STABLEHLO: %r = stablehlo.reshape {{.*}} : (tensor<2x2x3xf32>) -> tensor<4x3xf32>
// TOSA-LABEL: @blocks
// TOSA: tosa.reshape %x, {{.*}} -> tensor<2x2x3xi8>
// TOSA: tensor<2x1x1xf32>
// TOSA: %r = tosa.reshape {{.*}} -> tensor<4x3xf32>
// LINALG-LABEL: @blocks
// LINALG: tensor.expand_shape %x {{.*}} output_shape [2, 2, 3]
// LINALG: %r = tensor.collapse_shape
// ARITH-LABEL: @blocks
// ARITH: tensor.expand_shape %x
// ARITH: linalg.broadcast {{.*}} dimensions = [1, 2]
// ARITH: %r = tensor.collapse_shape
// ONNX-LABEL: @blocks
// ONNX: quant.dcast
func.func @blocks(%x: tensor<4x3xi8>) -> tensor<4x3xf32> {
  %0 = quant.scast %x : tensor<4x3xi8> to tensor<4x3x!blocks>
  %r = quant.dcast %0 : tensor<4x3x!blocks> to tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
