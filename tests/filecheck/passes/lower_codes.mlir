// RUN: qdialect-opt %s --lower-quant-ops --lower-quant-shapes --strip-func-quant-types --canonicalize --op-form=llvm22 | filecheck %s

// Codes of f4 are bytes, and the codes of zero pad them.
// CHECK-LABEL: func.func @main(%q: tensor<2xi8>) -> (tensor<3xi8>, tensor<3xf32>) {
// CHECK-NEXT:    %0 = arith.constant 0 : i8
// CHECK-NEXT:    %p = tensor.pad %q low[1] high[0] {
// CHECK:         %[[TABLE:.*]] = arith.constant dense<[0.000000e+00, 5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 6.000000e+00, -0.000000e+00, -5.000000e-01, -1.000000e+00, -1.500000e+00, -2.000000e+00, -3.000000e+00, -4.000000e+00, -6.000000e+00]> : tensor<16xf32>
// CHECK:         linalg.generic {{.*}} ins(%p : tensor<3xi8>) outs(%{{.*}} : tensor<3xf32>) {
// CHECK-NEXT:    ^bb0(%[[CODE:.*]]: i8, %{{.*}}: f32):
// CHECK-NEXT:      %[[WIDE:.*]] = arith.extui %[[CODE]] : i8 to i32
// CHECK:           %[[INDEX:.*]] = arith.index_cast
// CHECK-NEXT:      %[[NUMBER:.*]] = tensor.extract %[[TABLE]][%[[INDEX]]] : tensor<16xf32>
// CHECK-NEXT:      linalg.yield %[[NUMBER]] : f32
// CHECK:         arith.mulf
// CHECK-NOT:     quant.
!q = !quant.uniform<f4E2M1FN:f32, 0.5>
func.func @main(%q: tensor<2x!q>) -> (tensor<3x!q>, tensor<3xf32>) {
  %p = quant.pad %q low = [1] high = [0] : tensor<2x!q> to tensor<3x!q>
  %x = quant.dcast %p : tensor<3x!q> to tensor<3xf32>
  return %p, %x : tensor<3x!q>, tensor<3xf32>
}
