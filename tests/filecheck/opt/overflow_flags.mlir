// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s | xdsl-opt | filecheck %s
// RUN: qdialect-opt --op-form=generic %s | qdialect-opt | filecheck %s

func.func @f(%a: i32) {
  // CHECK: llvm.add %a, %a {overflowFlags = #llvm.overflow<nsw>} : i32
  %0 = llvm.add %a, %a {overflowFlags = #llvm.overflow<nsw>} : i32
  // CHECK-NEXT: llvm.sub %a, %a overflow<nsw,nuw> : i32
  %1 = llvm.sub %a, %a overflow<nsw, nuw> : i32
  // CHECK-NEXT: llvm.mul %a, %a overflow<nsw> : i32
  %2 = "llvm.mul"(%a, %a) <{overflowFlags = #llvm.overflow<nsw>}> : (i32, i32) -> i32
  // CHECK-NEXT: llvm.trunc %a overflow<nuw> : i32 to i8
  %3 = "llvm.trunc"(%a) <{overflowFlags = 2 : i32}> : (i32) -> i8
  func.return
}
