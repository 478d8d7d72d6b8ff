// RUN: qdialect-opt %s --strip-func-quant-types --allow-unregistered-dialect | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!p = !quant.uniform<u8:f32:0, {0.5,0.25:3}>

// CHECK: func.func private @declared(i8, tensor<2xi8>, f32) -> (tensor<*xi4>, tuple<!quant.uniform<i8:f32, 5.000000e-01:3>>)
func.func private @declared(!q, tensor<2x!p>, f32) -> (tensor<*x!quant.any<i4:f32>>, tuple<!q>)

// Values that only pass through are not cast.
// CHECK: func.func @through(%a: tensor<2xi8, "e"> {test.type = !quant.uniform<i8:f32, 5.000000e-01:3>}) -> tensor<2xi8, "e"> {
// CHECK-NEXT:   func.return %a : tensor<2xi8, "e">
func.func @through(%a: tensor<2x!p, "e"> {test.type = !q}) -> tensor<2x!p, "e"> {
  return %a : tensor<2x!p, "e">
}

// Others are cast where they are made, the last argument first.
// CHECK: func.func @used(%a: i8, %b: i8, %c: i8) -> (i8, f32) {
// CHECK-NEXT:   %0 = quant.scast %c : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %1 = quant.scast %a : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %2 = quant.dcast %1 : !quant.uniform<i8:f32, 5.000000e-01:3> to f32
// CHECK-NEXT:   %3 = quant.dcast %0 : !quant.uniform<i8:f32, 5.000000e-01:3> to f32
// CHECK-NEXT:   %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:   %5 = quant.qcast %4 : f32 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %6 = quant.scast %5 : !quant.uniform<i8:f32, 5.000000e-01:3> to i8
// CHECK-NEXT:   func.return %6, %4 : i8, f32
func.func @used(%a: !q, %b: !q, %c: !q) -> (!q, f32) {
  %0 = quant.dcast %a : !q to f32
  %1 = quant.dcast %c : !q to f32
  %2 = arith.addf %0, %1 : f32
  %3 = quant.qcast %2 : f32 to !q
  return %3, %2 : !q, f32
}

// CHECK: func.func private @callee(i8) -> (i8, i8)
// CHECK-NEXT: func.func @caller(%a: i8) -> i8 {
// CHECK-NEXT:   %0 = quant.scast %a : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %1 = "test.op"(%0) : (!quant.uniform<i8:f32, 5.000000e-01:3>) -> !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %2 = quant.scast %1 : !quant.uniform<i8:f32, 5.000000e-01:3> to i8
// CHECK-NEXT:   %3, %4 = func.call @callee(%2) : (i8) -> (i8, i8)
// CHECK-NEXT:   %5 = quant.scast %4 : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   %6, %7 = func.call @callee(%3) : (i8) -> (i8, i8)
// CHECK-NEXT:   %8 = quant.scast %6 : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   "test.op"(%5, %8) : (!quant.uniform<i8:f32, 5.000000e-01:3>, !quant.uniform<i8:f32, 5.000000e-01:3>) -> ()
// CHECK-NEXT:   func.return %7 : i8
func.func private @callee(!q) -> (!q, !q)
func.func @caller(%a: !q) -> !q {
  %0 = "test.op"(%a) : (!q) -> !q
  %1, %2 = func.call @callee(%0) : (!q) -> (!q, !q)
  %3, %4 = func.call @callee(%1) : (!q) -> (!q, !q)
  "test.op"(%2, %3) : (!q, !q) -> ()
  return %4 : !q
}
