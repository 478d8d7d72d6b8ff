// RUN: qdialect-opt %s --raise-dequantization --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: @stablehlo
// CHECK-NEXT: %w = stablehlo.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK-NEXT: %0 = quant.scast %w : tensor<2x2xi8> to tensor<2x2x!quant.uniform<i8:f32:1, {5.000000e-01:1,2.500000e-01:2}>>
// CHECK-NEXT: %r = quant.dcast %0 : {{.*}} to tensor<2x2xf32>
// CHECK-NEXT: return %r
func.func @stablehlo() -> tensor<2x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2xi8>
  %z = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %s = "stablehlo.constant"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %0 = "stablehlo.convert"(%w) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %1 = "stablehlo.convert"(%z) : (tensor<2xi32>) -> tensor<2xf32>
  %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xf32>) -> tensor<2x2xf32>
  %3 = "stablehlo.subtract"(%0, %2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xf32>) -> tensor<2x2xf32>
  %r = "stablehlo.multiply"(%3, %4) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// Unsigned integers are stored without a sign.
// CHECK-LABEL: @tosa
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, -56]]> : tensor<1x2xi8>
// CHECK-NEXT: to tensor<1x2x!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %r = quant.dcast
// CHECK-NEXT: return %r
func.func @tosa() -> tensor<1x2xf32> {
  %w = "tosa.const"() <{values = dense<[[1, 200]]> : tensor<1x2xui8>}> : () -> tensor<1x2xui8>
  %z = "tosa.const"() <{values = dense<3.0> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %s = "tosa.const"() <{values = dense<0.5> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
  %n = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.cast"(%w) : (tensor<1x2xui8>) -> tensor<1x2xf32>
  %1 = "tosa.sub"(%0, %z) : (tensor<1x2xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
  %r = "tosa.mul"(%1, %s, %n) : (tensor<1x2xf32>, tensor<1x1xf32>, tensor<1xi8>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}

// The axes are those of the result, and what the product is converted to is behind the cast.
// CHECK-LABEL: @linalg
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
// CHECK-NEXT: to tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: %1 = quant.dcast %0 : {{.*}} to tensor<3x2xf32>
// CHECK-NEXT: %r = arith.truncf %1 : tensor<3x2xf32> to tensor<3x2xf16>
// CHECK-NEXT: return %r
func.func @linalg() -> tensor<3x2xf16> {
  %w = arith.constant dense<[[1, 3, 5], [2, 4, 6]]> : tensor<2x3xi8>
  %s = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %e = tensor.empty() : tensor<3x2xf16>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%w, %s : tensor<2x3xi8>, tensor<2xf32>) outs(%e : tensor<3x2xf16>) {
  ^bb0(%x: i8, %by: f32, %out: f16):
    %0 = arith.sitofp %x : i8 to f32
    %1 = arith.mulf %0, %by : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<3x2xf16>
  return %r : tensor<3x2xf16>
}

// CHECK-LABEL: @onnx
// CHECK-NEXT: %w = "onnx.Constant"()
// CHECK-NEXT: to tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: %r = quant.dcast
// CHECK-NEXT: return %r
func.func @onnx() -> tensor<2x2xf32> {
  %w = "onnx.Constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2xi8>
  %s = "onnx.Constant"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %n = "onnx.NoValue"() <{value}> : () -> none
  %r = "onnx.DequantizeLinear"(%w, %s, %n) <{axis = 0 : si64}> : (tensor<2x2xi8>, tensor<2xf32>, none) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// CHECK-LABEL: @casts
// CHECK-NEXT: %0 = quant.dcast %x
// CHECK-NEXT: return %0
func.func @casts(%x: tensor<?x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?xf32> {
  %0 = "quantization.dcast"(%x) : (tensor<?x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
