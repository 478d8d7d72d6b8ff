// RUN: qdialect-opt %s | qdialect-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s --check-prefix=CANONICAL

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u16:f32, 0.25:9>
!axis = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
!blocks = !quant.uniform<i4:f32:{0:2}, {{0.5}, {1.0}}>
!narrow = !quant.uniform<i8<-127:127>:f32, 0.5>
!wide = !quant.uniform<i32:f32, 0.5>

// Nothing is joined: each step rounds, and clamps.
// CHECK-LABEL: @steps
// CHECK-NEXT:    %0 = quant.requantize %x : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x!quant.uniform<u16:f32, 2.500000e-01:9>>
// CHECK-NEXT:    %1 = quant.requantize %0 {rounding = "nearest-away"} : tensor<2x!quant.uniform<u16:f32, 2.500000e-01:9>> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CANONICAL-LABEL: @steps
// CANONICAL-NEXT:    %0 = quant.requantize %x
// CANONICAL-NEXT:    %1 = quant.requantize %0 {rounding = "nearest-away"}
// CANONICAL-NEXT:    func.return %1
func.func @steps(%x: tensor<2x!a>) -> tensor<2x!a> {
  %0 = quant.requantize %x : tensor<2x!a> to tensor<2x!b>
  %1 = quant.requantize %0 {rounding = "nearest-away"} : tensor<2x!b> to tensor<2x!a>
  return %1 : tensor<2x!a>
}

// Scalars, tensors without a rank, of unknown lengths, with slots of axes or blocks.
// CHECK-LABEL: @shapes
// CHECK-NEXT:    %0 = quant.requantize %x {rounding = "upstream"} : !quant.uniform<i8:f32, 5.000000e-01:3> to !quant.uniform<u16:f32, 2.500000e-01:9>
// CHECK-NEXT:    %1 = quant.requantize %y : tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:    %2 = quant.requantize %z {other = 1 : i64, rounding = "nearest-even"} : tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> to tensor<?x2x!quant.uniform<u16:f32, 2.500000e-01:9>>
// CHECK-NEXT:    %3 = quant.requantize %w : tensor<4x1x!quant.uniform<i4:f32:{0:2}, {{[{][{]}}5.000000e-01}, {1.000000e+00}}>> to tensor<4x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @shapes(%x: !a, %y: tensor<*x!a>, %z: tensor<?x2x!axis>, %w: tensor<4x1x!blocks>) {
  %0 = quant.requantize %x {rounding = "upstream"} : !a to !b
  %1 = quant.requantize %y : tensor<*x!a> to tensor<*x!axis>
  %2 = quant.requantize %z {rounding = "nearest-even", other = 1 : i64} : tensor<?x2x!axis> to tensor<?x2x!b>
  %3 = quant.requantize %w : tensor<4x1x!blocks> to tensor<4x1x!a>
  return
}

// To the same type: dropped where it is the identity for every integer that there may be.
// CANONICAL-LABEL: @same
// CANONICAL-NEXT:    func.return %x, %y
func.func @same(%x: tensor<?x!a>, %y: !b) -> (tensor<?x!a>, !b) {
  %0 = quant.requantize %x : tensor<?x!a> to tensor<?x!a>
  %1 = quant.requantize %y {rounding = "nearest-away"} : !b to !b
  return %0, %1 : tensor<?x!a>, !b
}

// An argument may hold -128, which becomes -127. What is quantized does not.
// CANONICAL-LABEL: @narrow
// CANONICAL-NEXT:    %0 = quant.requantize %x
// CANONICAL-NEXT:    func.return %0
func.func @narrow(%x: tensor<2x!narrow>) -> tensor<2x!narrow> {
  %0 = quant.requantize %x : tensor<2x!narrow> to tensor<2x!narrow>
  %1 = quant.requantize %0 : tensor<2x!narrow> to tensor<2x!narrow>
  return %1 : tensor<2x!narrow>
}

// Not all integers of 32 bits are f32, and an attribute may keep any op.
// CANONICAL-LABEL: @stay
// CANONICAL-NEXT:    %0 = quant.requantize %x
// CANONICAL-NEXT:    %1 = quant.requantize %y {sdy.sharding = "here"}
func.func @stay(%x: tensor<2x!wide>, %y: !a) -> (tensor<2x!wide>, !a) {
  %0 = quant.requantize %x : tensor<2x!wide> to tensor<2x!wide>
  %1 = quant.requantize %y {sdy.sharding = "here"} : !a to !a
  return %0, %1 : tensor<2x!wide>, !a
}

// Truncation changes what rounding to the nearest does not: 0.1 * 3 / 0.1 is less than 3.
!tenth = !quant.uniform<i8:f64, 0.1>
// CANONICAL-LABEL: @truncated
// CANONICAL-NEXT:    %0 = quant.requantize %x {rounding = "upstream"}
// CANONICAL-NEXT:    func.return %0, %x
func.func @truncated(%x: tensor<2x!tenth>) -> (tensor<2x!tenth>, tensor<2x!tenth>) {
  %0 = quant.requantize %x {rounding = "upstream"} : tensor<2x!tenth> to tensor<2x!tenth>
  %1 = quant.requantize %x : tensor<2x!tenth> to tensor<2x!tenth>
  return %0, %1 : tensor<2x!tenth>, tensor<2x!tenth>
}
