// RUN: qdialect-opt %s --canonicalize -o %t
// RUN: filecheck %s --input-file %t
// RUN: qdialect-check %s %t

// An op on tensors without users is dead. One that writes a buffer is not.
// CHECK-LABEL: @f
// CHECK-NEXT: linalg.matvec
// CHECK-NEXT: return
func.func @f(%x: tensor<2x3xf32>, %a: memref<2x3xf32>, %b: memref<3xf32>, %c: memref<2xf32>) {
  %0 = linalg.abs ins(%x : tensor<2x3xf32>) outs(%x : tensor<2x3xf32>) -> tensor<2x3xf32>
  linalg.matvec ins(%a, %b : memref<2x3xf32>, memref<3xf32>) outs(%c : memref<2xf32>)
  return
}
