// A constant whose elements are in a resource becomes one, of every kind. A blob is as many
// bytes for each element as its width needs; four are its alignment, which is kept.
// RUN: qdialect-opt %s --fold-quant-shapes --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes --allow-unregistered-dialect --print-op-generic | qdialect-opt --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --fold-quant-shapes --allow-unregistered-dialect | filecheck %s --check-prefix=LOWERED

!rows = !quant.uniform<i8:f32:0, {0.5,0.25}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25}>

// CHECK-LABEL: @constants
// CHECK: %a = arith.constant dense_resource<a_0> : tensor<3x2xi8>
// CHECK: %q = quant.constant dense_resource<q_0> : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>>
// CHECK: %t = "tosa.const"() <{values = dense_resource<t_0> : tensor<2xi16>}> : () -> tensor<2x!quant.uniform<i16:f32, 5.000000e-01>>
// CHECK: %s = {{.*}}stablehlo.constant{{.*}}dense_resource<s_0> : tensor<2xf32>
// CHECK: %n = arith.constant dense_resource<n_0> : tensor<2xi4>
// LOWERED-LABEL: @constants
// LOWERED: %q = arith.constant dense_resource<q_0> : tensor<3x2xi8>
func.func @constants() -> (tensor<3x2xi8>, tensor<3x2x!columns>, tensor<2x!quant.uniform<i16:f32, 0.5>>, tensor<2xf32>, tensor<2xi4>) {
  %a = arith.constant dense_resource<a> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<3x2xi8>
  %0 = linalg.transpose ins(%a : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  %q = quant.constant dense_resource<q> : tensor<2x3x!rows>
  %1 = quant.transpose %q permutation = [1, 0] : tensor<2x3x!rows> to tensor<3x2x!columns>
  %t = "tosa.const"() <{values = dense_resource<t> : tensor<2xi16>}> : () -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  %2 = tosa.reverse %t {axis = 0 : i32} : (tensor<2x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  %s = "stablehlo.constant"() <{value = dense_resource<s> : tensor<2xf32>}> : () -> tensor<2xf32>
  %3 = "stablehlo.reverse"(%s) <{dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2xf32>
  %n = arith.constant dense_resource<n> : tensor<1x2xi4>
  %4 = tensor.collapse_shape %n [[0, 1]] : tensor<1x2xi4> into tensor<2xi4>
  return %0, %1, %2, %3, %4 : tensor<3x2xi8>, tensor<3x2x!columns>, tensor<2x!quant.uniform<i16:f32, 0.5>>, tensor<2xf32>, tensor<2xi4>
}

// The old blobs are gone, but for that which is still used.
// CHECK-LABEL: @used
// CHECK: dense_resource<u>
// CHECK: dense_resource<u_0>
func.func @used() -> (tensor<2xi8>, tensor<1x2xi8>) {
  %u = arith.constant dense_resource<u> : tensor<2xi8>
  %0 = tensor.expand_shape %u [[0, 1]] output_shape [1, 2] : tensor<2xi8> into tensor<1x2xi8>
  return %u, %0 : tensor<2xi8>, tensor<1x2xi8>
}

// A splat that is repeated needs no larger blob.
// CHECK-LABEL: @repeated
// CHECK: tosa.const{{.*}}dense<7> : tensor<4x3xi8>
func.func @repeated() -> tensor<4x3xi8> {
  %e = "tosa.const"() <{values = dense_resource<e> : tensor<1x3xi8>}> : () -> tensor<1x3xi8>
  %multiples = tosa.const_shape {values = dense<[4, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.tile %e, %multiples : (tensor<1x3xi8>, !tosa.shape<2>) -> tensor<4x3xi8>
  return %0 : tensor<4x3xi8>
}

// What only reshapes a constant that stays is not worth a copy.
// CHECK-LABEL: @reshaped
// CHECK: dense_resource<l> : tensor<8x10xi8>
// CHECK-NEXT: tensor.collapse_shape
// CHECK: dense_resource<l_0> : tensor<10x8xi8>
func.func @reshaped(%init: tensor<10x8xi8>) -> (tensor<8x10xi8>, tensor<80xi8>, tensor<10x8xi8>) {
  %l = arith.constant dense_resource<l> : tensor<8x10xi8>
  %0 = tensor.collapse_shape %l [[0, 1]] : tensor<8x10xi8> into tensor<80xi8>
  %1 = linalg.transpose ins(%l : tensor<8x10xi8>) outs(%init : tensor<10x8xi8>) permutation = [1, 0]
  return %l, %0, %1 : tensor<8x10xi8>, tensor<80xi8>, tensor<10x8xi8>
}

// CHECK: dialect_resources
// CHECK-NOT: a: "
// CHECK-DAG: a_0: "0x10000000010402050306"
// CHECK-DAG: n_0: "0x01000000010F"
// CHECK-DAG: q_0: "0x01000000F10402050306"
// CHECK-DAG: s_0: "0x04000000000000800000803F"
// CHECK-DAG: t_0: "0x0200000003000201"
// CHECK-DAG: u: "0x010000000708"
// CHECK-DAG: u_0: "0x010000000708"
{-#
  dialect_resources: {
    builtin: {
      a: "0x10000000010203040506",
      q: "0x01000000F10203040506",
      t: "0x0200000002010300",
      s: "0x040000000000803F00000080",
      n: "0x01000000010F",
      u: "0x010000000708",
      e: "0x01000000070707",
      l: "0x01000000000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F404142434445464748494A4B4C4D4E4F"
    }
  }
#-}
