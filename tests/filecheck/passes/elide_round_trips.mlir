// RUN: qdialect-opt %s --elide-round-trips --remarks --verify-diagnostics --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p elide-round-trips --split-input-file | filecheck %s
// RUN: qdialect-opt %s --elide-round-trips=changing=true --split-input-file | filecheck %s --check-prefix=CHANGING

!a = !quant.uniform<i8:f32:0, {0.1,0.25:3}>
// CHECK-LABEL: @identity
// CHECK-NEXT:    func.return %q
func.func @identity(%q: tensor<2x!a>) -> tensor<2x!a> {
  %0 = quant.dcast %q : tensor<2x!a> to tensor<2xf32>
  // expected-remark @below {{elided 'quant.qcast': 'quant.qcast' of 'quant.dcast' is the identity for every integer}}
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!a>
  return %1 : tensor<2x!a>
}

// -----

// Not all these integers are numbers of f16.
!z = !quant.uniform<i16:f16, 1.0:2049>
// CHECK-LABEL: @rounded
// CHANGING-LABEL: @rounded
// CHANGING-NEXT:    func.return %q
func.func @rounded(%q: tensor<2x!z>) -> tensor<2x!z> {
  %0 = quant.dcast %q : tensor<2x!z> to tensor<2xf16>
  // CHECK: quant.qcast
  // expected-remark @below {{not elided: 'quant.qcast' of 'quant.dcast' would change numerics: -32767 becomes -32768 with scale 1.000000e+00, zero point 2049 [numerics]}}
  %1 = quant.qcast %0 : tensor<2xf16> to tensor<2x!z>
  return %1 : tensor<2x!z>
}

// -----

// An argument may hold -128, which is stored as -127. What is quantized does not.
!n = !quant.uniform<i8<-127:127>:f32, 0.5>
// CHECK-LABEL: @range
// CHECK-NEXT:    %{{.*}} = quant.dcast %q
// CHECK-NEXT:    %{{.*}} = quant.qcast
// CHECK-NEXT:    %{{.*}} = quant.qcast %x
// CHECK-NEXT:    %{{.*}} = quant.reverse
// CHECK-NEXT:    func.return
// CHANGING-LABEL: @range
func.func @range(%q: tensor<2x!n>, %x: tensor<2xf32>) -> (tensor<2x!n>, tensor<2x!n>) {
  %0 = quant.dcast %q : tensor<2x!n> to tensor<2xf32>
  // expected-remark @below {{not elided: 'quant.qcast' of 'quant.dcast' would change numerics: -128 becomes -127 with scale 5.000000e-01, zero point 0 [numerics]}}
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!n>
  %2 = quant.qcast %x : tensor<2xf32> to tensor<2x!n>
  %3 = quant.reverse %2 dims = [0] : tensor<2x!n> to tensor<2x!n>
  %4 = quant.dcast %3 : tensor<2x!n> to tensor<2xf32>
  // expected-remark @below {{elided 'quant.qcast': 'quant.qcast' of 'quant.dcast' is the identity for every integer}}
  %5 = quant.qcast %4 : tensor<2xf32> to tensor<2x!n>
  return %1, %5 : tensor<2x!n>, tensor<2x!n>
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// CHECK-LABEL: @floats
// CHECK-NEXT:    %{{.*}} = quant.qcast
// CHECK-NEXT:    %{{.*}} = quant.dcast
// CHANGING-LABEL: @floats
// CHANGING-NEXT:    func.return %x
func.func @floats(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!p>
  // expected-remark @below {{not elided: 'quant.dcast' of 'quant.qcast' would change numerics: floats are no longer rounded and clamped [numerics]}}
  %1 = quant.dcast %0 : tensor<2x!p> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A row of them is the value itself; another type is not the same.
!p = !quant.uniform<i8:f32, 0.5>
!r = !quant.uniform<i8:f32, 0.25>
// CHECK-LABEL: @row
// CHECK-NEXT:    %{{.*}} = quant.dcast %q
// CHECK-NEXT:    %{{.*}} = quant.qcast
// CHECK-NEXT:    func.return
// CHANGING-LABEL: @row
// CHANGING-NEXT:    %{{.*}} = quant.dcast %q
// CHANGING-NEXT:    %{{.*}} = quant.qcast
func.func @row(%q: tensor<2x!p>) -> tensor<2x!r> {
  %0 = quant.dcast %q : tensor<2x!p> to tensor<2xf32>
  // expected-remark @below {{elided 'quant.qcast': 'quant.qcast' of 'quant.dcast' is the identity for every integer}}
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!p>
  %2 = quant.dcast %1 : tensor<2x!p> to tensor<2xf32>
  // expected-remark @below {{elided 'quant.qcast': 'quant.qcast' of 'quant.dcast' is the identity for every integer}}
  %3 = quant.qcast %2 : tensor<2xf32> to tensor<2x!p>
  %4 = quant.dcast %3 : tensor<2x!p> to tensor<2xf32>
  %5 = quant.qcast %4 : tensor<2xf32> to tensor<2x!r>
  return %5 : tensor<2x!r>
}

// -----

// More bits than are tried.
!w = !quant.uniform<i32:f32, 0.5>
// CHECK-LABEL: @wide
func.func @wide(%q: tensor<2x!w>) -> tensor<2x!w> {
  %0 = quant.dcast %q : tensor<2x!w> to tensor<2xf32>
  // CHECK: quant.qcast
  // expected-remark @below {{not elided: 'quant.qcast' of 'quant.dcast' would change numerics: perhaps, since integers of more than 16 bits are not tried one by one [numerics]}}
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!w>
  return %1 : tensor<2x!w>
}

// -----

// The dequantizing cast rounds, but is gone with the only cast that used it: nothing is refused.
!q = !quant.uniform<i8:f32, 0.5>
// CHECK-LABEL: @there_and_back_again
// CHECK-NEXT:    %0 = quant.qcast
// CHECK-NEXT:    func.return %0
func.func @there_and_back_again(%x: tensor<2xf32>) -> tensor<2x!q> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
  %1 = quant.dcast %0 : tensor<2x!q> to tensor<2xf32>
  // expected-remark @below {{elided 'quant.qcast': 'quant.qcast' of 'quant.dcast' is the identity for every integer}}
  %2 = quant.qcast %1 : tensor<2xf32> to tensor<2x!q>
  return %2 : tensor<2x!q>
}

// -----

// A requantization to the type of its operand.
!n = !quant.uniform<i8<-127:127>:f32, 0.5>
// CHECK-LABEL: @requantize
// CHECK-NEXT:    %0 = quant.requantize %q
// CHECK-NEXT:    %1 = quant.reverse %0
// CHECK-NEXT:    func.return %1
// CHANGING-LABEL: @requantize
// CHANGING-NEXT:    %0 = quant.reverse %q
// CHANGING-NEXT:    func.return %0
func.func @requantize(%q: tensor<2x!n>) -> tensor<2x!n> {
  // expected-remark @below {{not elided: 'quant.requantize' would change numerics: -128 becomes -127 with scale 5.000000e-01, zero point 0 [numerics]}}
  %0 = quant.requantize %q : tensor<2x!n> to tensor<2x!n>
  %1 = quant.reverse %0 dims = [0] : tensor<2x!n> to tensor<2x!n>
  // expected-remark @below {{elided 'quant.requantize': 'quant.requantize' is the identity for every integer}}
  %2 = quant.requantize %1 {rounding = "nearest-away"} : tensor<2x!n> to tensor<2x!n>
  return %2 : tensor<2x!n>
}
