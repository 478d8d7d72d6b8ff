// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops=rounding=nearest-away | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8<1:250>:f32, 0.25>
!axis = !quant.uniform<i16:f16:0, {0.5,0.25:3}>
!half = !quant.uniform<i8:f16, 2.0>

// It rounds as it says itself, whatever the pass is told for `quant.qcast`.
// CHECK-LABEL: @scalar
// CHECK-NEXT:    %0 = quant.scast %x : !quant.uniform<i8:f32, 5.000000e-01:3> to i8
// CHECK-NEXT:    %1 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:    %2 = arith.constant 3 : i8
// CHECK-NEXT:    %3 = arith.sitofp %0 : i8 to f32
// CHECK-NEXT:    %4 = arith.sitofp %2 : i8 to f32
// CHECK-NEXT:    %5 = arith.subf %3, %4 : f32
// CHECK-NEXT:    %6 = arith.mulf %5, %1 : f32
// CHECK-NEXT:    %7 = arith.constant 2.500000e-01 : f32
// CHECK-NEXT:    %8 = arith.constant 0 : i8
// CHECK-NEXT:    %9 = arith.divf %6, %7 : f32
// CHECK-NEXT:    %10 = math.roundeven %9 : f32
// CHECK-NEXT:    %11 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    %12 = arith.constant 2.500000e+02 : f32
// CHECK-NEXT:    %13 = arith.maxnumf %10, %11 : f32
// CHECK-NEXT:    %14 = arith.minnumf %13, %12 : f32
// CHECK-NEXT:    %15 = arith.fptoui %14 : f32 to i8
// CHECK-NEXT:    %y = quant.scast %15 : i8 to !quant.uniform<u8<1:250>:f32, 2.500000e-01>
// CHECK-NEXT:    func.return %y
func.func @scalar(%x: !a) -> !b {
  %y = quant.requantize %x : !a to !b
  return %y : !b
}

// CHECK-LABEL: @away
// CHECK-NOT:     quant.requantize
// CHECK:         linalg.generic
// CHECK:           math.round %
// CHECK:           arith.fptosi %{{.*}} : {{.*}} to i16
// CHECK:         } -> tensor<2xi16>
func.func @away(%x: tensor<2x!half>) -> tensor<2x!axis> {
  %y = quant.requantize %x {rounding = "nearest-away"} : tensor<2x!half> to tensor<2x!axis>
  return %y : tensor<2x!axis>
}

// Clamped also when it truncates.
// CHECK-LABEL: @truncated
// CHECK:         math.trunc
// CHECK:         arith.maxnumf
// CHECK:         arith.minnumf
// CHECK-NEXT:    arith.fptoui
func.func @truncated(%x: !a) -> !b {
  %y = quant.requantize %x {rounding = "upstream"} : !a to !b
  return %y : !b
}

// What changes nothing becomes nothing.
// CHECK-LABEL: @same
// CHECK-NEXT:    func.return %x
func.func @same(%x: tensor<*x!a>) -> tensor<*x!a> {
  %y = quant.requantize %x : tensor<*x!a> to tensor<*x!a>
  return %y : tensor<*x!a>
}
