// What is read as unsigned says so in its type, where there is no op that does.
// RUN: qdialect-opt %s --lower-dequantization=to=stablehlo | filecheck %s
// RUN: qdialect-opt %s --lower-dequantization=to=linalg | filecheck %s --check-prefix=LINALG
// RUN: qdialect-opt %s --lower-dequantization=to=tosa --remarks --verify-diagnostics | filecheck %s --check-prefix=TOSA

!u = !quant.uniform<u8:f32, 0.5>

// CHECK-LABEL: @constant
// CHECK-NEXT: %w = stablehlo.constant dense<[1, 200]> : tensor<2xui8>
// CHECK-NEXT: stablehlo.convert %w : (tensor<2xui8>) -> tensor<2xf32>
// LINALG-LABEL: @constant
// LINALG-NEXT: %w = arith.constant dense<[1, -56]> : tensor<2xi8>
// LINALG: arith.uitofp {{.*}} : i8 to f32
// TOSA-LABEL: @constant
// TOSA-NEXT: %w = "tosa.const"() <{values = dense<[1, 200]> : tensor<2xui8>}> : () -> tensor<2xui8>
func.func @constant() -> tensor<2xf32> {
  %w = arith.constant dense<[1, -56]> : tensor<2xi8>
  %0 = quant.scast %w : tensor<2xi8> to tensor<2x!u>
  // expected-remark @below {{lowered 'quant.dcast': it is lowered to tosa}}
  %r = quant.dcast %0 : tensor<2x!u> to tensor<2xf32>
  return %r : tensor<2xf32>
}

// CHECK-LABEL: @argument
// CHECK-NEXT: stablehlo.bitcast_convert %x : (tensor<2xi8>) -> tensor<2xui8>
// LINALG-LABEL: @argument
// LINALG: arith.uitofp
// TOSA-LABEL: @argument
// TOSA: quant.dcast
func.func @argument(%x: tensor<2xi8>) -> tensor<2xf32> {
  %0 = quant.scast %x : tensor<2xi8> to tensor<2x!u>
  // expected-remark @below {{not lowered: tosa has no op that reads 'i8' as unsigned [illegal-type]}}
  %r = quant.dcast %0 : tensor<2x!u> to tensor<2xf32>
  return %r : tensor<2xf32>
}
