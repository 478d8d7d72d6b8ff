// RUN: qdialect-opt %s --canonicalize=test-convergence | filecheck %s

// In a graph region, an op may use what it makes. It has no value to stand for it.

// CHECK:      builtin.module {
// CHECK-NEXT:   %zero = arith.constant 0 : i32
// CHECK-NEXT:   %a = arith.addi %b, %zero : i32
// CHECK-NEXT:   %b = arith.addi %a, %zero : i32
// CHECK-NEXT:   %itself = arith.addi %itself, %zero : i32
// CHECK-NEXT:   %through = "test.op"() ({
// CHECK-NEXT:     %inner = arith.addi %through, %zero : i32
// CHECK-NEXT:     "test.termop"(%inner) : (i32) -> ()
// CHECK-NEXT:   }) : () -> i32
// CHECK-NEXT:   "test.op"(%a, %itself, %through) : (i32, i32, i32) -> ()

%zero = arith.constant 0 : i32
%a = arith.addi %b, %zero : i32
%b = arith.addi %a, %zero : i32
%itself = arith.addi %itself, %zero : i32
%through = "test.op"() ({
  %inner = arith.addi %through, %zero : i32
  "test.termop"(%inner) : (i32) -> ()
}) : () -> i32

// What only uses a circle is canonicalized, as is what comes later.

// CHECK-NEXT:   "test.op"(%b) : (i32) -> ()
// CHECK-NEXT:   "test.op"(%late) : (i32) -> ()
// CHECK-NEXT:   %late = "test.op"() : () -> i32
%after = arith.addi %b, %zero : i32
%again = arith.addi %late, %zero : i32
"test.op"(%a, %itself, %through) : (i32, i32, i32) -> ()
"test.op"(%after) : (i32) -> ()
"test.op"(%again) : (i32) -> ()
%late = "test.op"() : () -> i32

// Where nothing uses it, it is dead.

// CHECK-NEXT: }
%t = tosa.transpose %u {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
%u = tosa.transpose %t {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
