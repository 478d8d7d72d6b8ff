// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!u = !quant.uniform<u8<1:255>:f16, 0.5:128>
!a0 = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!a1 = !quant.uniform<u8:f32:1, {0.5:9,0.25,2.0}>
!b = !quant.uniform<i4:f32:{0:1, 1:2}, {{0.5, 0.25:1}, {2.0, 0.5}}>
!any = !quant.any<i16:f32>

// CHECK-LABEL: @transpose(
func.func @transpose(%arg0: tensor<2x3x!a1>, %arg1: tensor<?x4x!b>, %arg2: tensor<*xf32>) {
  // CHECK: %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>) -> tensor<3x2x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.transpose"(%{{.+}}) <{perms = array<i32: 1, 0>}>
  %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3x!a1>) -> tensor<3x2x!a1>
  // CHECK: %1 = tosa.transpose %arg1 {note, perms = array<i32: 1, 0>} : (tensor<?x4x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>) -> tensor<4x?x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>
  // GENERIC: "tosa.transpose"(%{{.+}}) <{perms = array<i32: 1, 0>}> {note}
  %1 = tosa.transpose %arg1 {note, perms = array<i32: 1, 0>} : (tensor<?x4x!b>) -> tensor<4x?x!b>
  // CHECK: %2 = tosa.transpose %arg2 {perms = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<?x?xf32>
  // GENERIC: "tosa.transpose"(%{{.+}}) <{perms = array<i32: 1, 0>}>
  %2 = tosa.transpose %arg2 {perms = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<?x?xf32>
  return
}

// CHECK-LABEL: @reshape(
func.func @reshape(%arg0: tensor<2x4x!b>, %arg1: tensor<?x3x!u>, %arg2: tensor<1x1x!any>) {
  // CHECK: %0 = tosa.const_shape {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // GENERIC: "tosa.const_shape"() <{values = dense<[4, 2]> : tensor<2xindex>}>
  %0 = tosa.const_shape {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: %1 = tosa.reshape %arg0, %0 : (tensor<2x4x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>, !tosa.shape<2>) -> tensor<4x2x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>
  // GENERIC: "tosa.reshape"(%{{.+}}, %{{.+}})
  %1 = tosa.reshape %arg0, %0 : (tensor<2x4x!b>, !tosa.shape<2>) -> tensor<4x2x!b>
  // CHECK: %2 = tosa.const_shape {values = dense<-1> : tensor<1xindex>} : () -> !tosa.shape<1>
  // GENERIC: "tosa.const_shape"() <{values = dense<-1> : tensor<1xindex>}>
  %2 = tosa.const_shape {values = dense<-1> : tensor<1xindex>} : () -> !tosa.shape<1>
  // CHECK: %3 = tosa.reshape %arg1, %2 : (tensor<?x3x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>, !tosa.shape<1>) -> tensor<?x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>
  // GENERIC: "tosa.reshape"(%{{.+}}, %{{.+}})
  %3 = tosa.reshape %arg1, %2 : (tensor<?x3x!u>, !tosa.shape<1>) -> tensor<?x!u>
  // CHECK: %4 = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  // GENERIC: "tosa.const_shape"() <{values = dense<> : tensor<0xindex>}>
  %4 = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  // CHECK: %5 = tosa.reshape %arg2, %4 {note} : (tensor<1x1x!quant.any<i16:f32>>, !tosa.shape<0>) -> tensor<!quant.any<i16:f32>>
  // GENERIC: "tosa.reshape"(%{{.+}}, %{{.+}}) {note}
  %5 = tosa.reshape %arg2, %4 {note} : (tensor<1x1x!any>, !tosa.shape<0>) -> tensor<!any>
  return
}

// CHECK-LABEL: @slice(
func.func @slice(%arg0: tensor<2x3x!a1>, %arg1: tensor<?x?x!u>) {
  // CHECK: %0 = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // GENERIC: "tosa.const_shape"() <{values = dense<[0, 1]> : tensor<2xindex>}>
  %0 = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: %1 = tosa.const_shape {values = dense<2> : tensor<2xindex>} : () -> !tosa.shape<2>
  // GENERIC: "tosa.const_shape"() <{values = dense<2> : tensor<2xindex>}>
  %1 = tosa.const_shape {values = dense<[2, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: %2 = tosa.slice %arg0, %0, %1 : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
  // GENERIC: "tosa.slice"(%{{.+}}, %{{.+}}, %{{.+}})
  %2 = tosa.slice %arg0, %0, %1 : (tensor<2x3x!a1>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2x!a0>
  // CHECK: %3 = tosa.slice %arg1, %0, %1 : (tensor<?x?x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>
  // GENERIC: "tosa.slice"(%{{.+}}, %{{.+}}, %{{.+}})
  %3 = tosa.slice %arg1, %0, %1 : (tensor<?x?x!u>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2x!u>
  return
}

// CHECK-LABEL: @pad(
func.func @pad(%arg0: tensor<2x3x!u>, %arg1: tensor<1x!u>, %arg2: tensor<?x3x!a1>, %arg3: tensor<1xui8>) {
  // CHECK: %0 = tosa.const_shape {values = dense<[0, 1, 2, 3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // GENERIC: "tosa.const_shape"() <{values = dense<[0, 1, 2, 3]> : tensor<4xindex>}>
  %0 = tosa.const_shape {values = dense<[0, 1, 2, 3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // CHECK: %1 = tosa.pad %arg0, %0, %arg1 : (tensor<2x3x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>, !tosa.shape<4>, tensor<1x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>) -> tensor<3x8x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>
  // GENERIC: "tosa.pad"(%{{.+}}, %{{.+}}, %{{.+}})
  %1 = tosa.pad %arg0, %0, %arg1 : (tensor<2x3x!u>, !tosa.shape<4>, tensor<1x!u>) -> tensor<3x8x!u>
  // CHECK: %2 = tosa.pad %arg2, %0, %arg3 : (tensor<?x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>, !tosa.shape<4>, tensor<1xui8>) -> tensor<?x8x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.pad"(%{{.+}}, %{{.+}}, %{{.+}})
  %2 = tosa.pad %arg2, %0, %arg3 : (tensor<?x3x!a1>, !tosa.shape<4>, tensor<1xui8>) -> tensor<?x8x!a1>
  return
}

// CHECK-LABEL: @reverse(
func.func @reverse(%arg0: tensor<2x3x!q>, %arg1: tensor<2x2x!a0>) {
  // CHECK: %0 = tosa.reverse %arg0 {axis = 1 : i32} : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  // GENERIC: "tosa.reverse"(%{{.+}}) <{axis = 1 : i32}>
  %0 = tosa.reverse %arg0 {axis = 1 : i32} : (tensor<2x3x!q>) -> tensor<2x3x!q>
  // CHECK: %1 = tosa.reverse %arg1 {axis = 0 : i32, note = 7 : i32} : (tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<2x2x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>
  // GENERIC: "tosa.reverse"(%{{.+}}) <{axis = 0 : i32}> {note = 7 : i32}
  %1 = tosa.reverse %arg1 {axis = 0 : i32, note = 7 : i32} : (tensor<2x2x!a0>) -> tensor<2x2x!b>
  return
}

// CHECK-LABEL: @tile(
func.func @tile(%arg0: tensor<2x3x!q>, %arg1: tensor<2x?x!a0>) {
  // CHECK: %0 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // GENERIC: "tosa.const_shape"() <{values = dense<[2, 3]> : tensor<2xindex>}>
  %0 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: %1 = tosa.tile %arg0, %0 : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, !tosa.shape<2>) -> tensor<4x9x!quant.uniform<i8:f32, 5.000000e-01:3>>
  // GENERIC: "tosa.tile"(%{{.+}}, %{{.+}})
  %1 = tosa.tile %arg0, %0 : (tensor<2x3x!q>, !tosa.shape<2>) -> tensor<4x9x!q>
  // CHECK: %2 = tosa.tile %arg1, %0 : (tensor<2x?x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>, !tosa.shape<2>) -> tensor<4x?x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
  // GENERIC: "tosa.tile"(%{{.+}}, %{{.+}})
  %2 = tosa.tile %arg1, %0 : (tensor<2x?x!a0>, !tosa.shape<2>) -> tensor<4x?x!a0>
  return
}

// CHECK-LABEL: @gather(
func.func @gather(%arg0: tensor<1x4x5x!u>, %arg1: tensor<1x7xi32>, %arg2: tensor<?x?xi64>, %arg3: tensor<*x!a0>) {
  // CHECK: %0 = tosa.gather %arg0, %arg1 : (tensor<1x4x5x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>, tensor<1x7xi32>) -> tensor<1x7x5x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>
  // GENERIC: "tosa.gather"(%{{.+}}, %{{.+}})
  %0 = tosa.gather %arg0, %arg1 : (tensor<1x4x5x!u>, tensor<1x7xi32>) -> tensor<1x7x5x!u>
  // CHECK: %1 = tosa.gather %arg3, %arg2 : (tensor<*x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>, tensor<?x?xi64>) -> tensor<?x?x?x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.gather"(%{{.+}}, %{{.+}})
  %1 = tosa.gather %arg3, %arg2 : (tensor<*x!a0>, tensor<?x?xi64>) -> tensor<?x?x?x!a1>
  return
}

// CHECK-LABEL: @cast_and_identity(
func.func @cast_and_identity(%arg0: tensor<2x3x!q>, %arg1: tensor<?xf32>, %arg2: tensor<2x3x!a1>) {
  // CHECK: %0 = tosa.cast %arg0 : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3xf16>
  // GENERIC: "tosa.cast"(%{{.+}})
  %0 = tosa.cast %arg0 : (tensor<2x3x!q>) -> tensor<2x3xf16>
  // CHECK: %1 = tosa.cast %arg1 : (tensor<?xf32>) -> tensor<4xi8>
  // GENERIC: "tosa.cast"(%{{.+}})
  %1 = tosa.cast %arg1 : (tensor<?xf32>) -> tensor<4xi8>
  // CHECK: %2 = tosa.identity %arg2 : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>) -> tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.identity"(%{{.+}})
  %2 = tosa.identity %arg2 : (tensor<2x3x!a1>) -> tensor<2x3x!a1>
  // CHECK: %3 = tosa.identity %arg2 {note} : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>) -> tensor<2x3xui8>
  // GENERIC: "tosa.identity"(%{{.+}}) {note}
  %3 = tosa.identity %arg2 {note} : (tensor<2x3x!a1>) -> tensor<2x3xui8>
  return
}

// CHECK-LABEL: @const(
func.func @const() {
  // CHECK: %0 = "tosa.const"() <{values = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %0 = "tosa.const"() <{values = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!q>
  // CHECK: %1 = "tosa.const"() <{values = dense<[1, 200]> : tensor<2xui8>}> {name = "w"} : () -> tensor<2x!quant.uniform<u8<1:255>:f16, 5.000000e-01:128>>
  %1 = "tosa.const"() <{values = dense<[1, 200]> : tensor<2xui8>}> {name = "w"} : () -> tensor<2x!u>
  // CHECK: %2 = "tosa.const"() <{values = dense<7> : tensor<5x3xui8>}> : () -> tensor<5x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  %2 = "tosa.const"() <{values = dense<7> : tensor<5x3xui8>}> : () -> tensor<5x3x!a1>
  // CHECK: %3 = "tosa.const"() <{values = dense<{{\[\[}}1, 2], [-8, 7]]> : tensor<2x2xi4>}> : () -> tensor<2x2x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01:1}, {2.000000e+00, 5.000000e-01}}>>
  %3 = "tosa.const"() <{values = dense<[[1, 2], [-8, 7]]> : tensor<2x2xi4>}> : () -> tensor<2x2x!b>
  // CHECK: %4 = "tosa.const"() <{values = dense<5> : tensor<2xi16>}> : () -> tensor<2x!quant.any<i16:f32>>
  %4 = "tosa.const"() <{values = dense<5> : tensor<2xi16>}> : () -> tensor<2x!any>
  // CHECK: %5 = "tosa.const"() <{values = dense_resource<weight> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %5 = "tosa.const"() <{values = dense_resource<weight> : tensor<2x2xi8>}> : () -> tensor<2x2x!q>
  // CHECK: %6 = "tosa.const"() <{values = dense<1.500000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
  %6 = "tosa.const"() <{values = dense<1.500000e+00> : tensor<2xf32>}> : () -> tensor<2xf32>
  return
}

// What xDSL has itself.
// CHECK-LABEL: @concat(
func.func @concat(%arg0: tensor<2x3x!a1>, %arg1: tensor<?x3x!a1>) {
  // CHECK: %0 = tosa.concat %arg0, %arg1 {axis = 0 : i32} : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>, tensor<?x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>) -> tensor<?x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.concat"(%{{.+}}, %{{.+}}) <{axis = 0 : i32}>
  %0 = tosa.concat %arg0, %arg1 {axis = 0 : i32} : (tensor<2x3x!a1>, tensor<?x3x!a1>) -> tensor<?x3x!a1>
  // CHECK: %1 = tosa.concat %arg0 {axis = 1 : i32} : (tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>) -> tensor<2x3x!quant.uniform<u8:f32:1, {5.000000e-01:9,2.500000e-01,2.000000e+00}>>
  // GENERIC: "tosa.concat"(%{{.+}}) <{axis = 1 : i32}>
  %1 = tosa.concat %arg0 {axis = 1 : i32} : (tensor<2x3x!a1>) -> tensor<2x3x!a1>
  return
}

// CHECK: func.func private @shape(!tosa.shape<0>, !tosa.shape<16>)
func.func private @shape(!tosa.shape<0>, !tosa.shape<16>)

{-#
  dialect_resources: {
    builtin: {
      weight: "0x0400000001020304"
    }
  }
#-}
