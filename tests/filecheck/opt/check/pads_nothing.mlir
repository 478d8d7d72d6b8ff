// RUN: qdialect-opt %s --fold-quant-shapes -o %t.mlir
// RUN: qdialect-check %s %t.mlir | filecheck %s

// The number to pad with has another scale, which no element gets.
// CHECK: the same: 1 function, proven
func.func @f() -> tensor<!quant.uniform<i4:f32, 1.562500e-02:-8>> {
  %w = quant.constant dense<5> : tensor<!quant.uniform<i4:f32, 1.562500e-02:-8>>
  %zero = stablehlo.constant() <{value = dense<0> : tensor<i4>}> : () -> tensor<!quant.uniform<i4:f32, 1.000000e-01:-8>>
  %padded = stablehlo.pad %w, %zero, low = [], high = [], interior = [] : (tensor<!quant.uniform<i4:f32, 1.562500e-02:-8>>, tensor<!quant.uniform<i4:f32, 1.000000e-01:-8>>) -> tensor<!quant.uniform<i4:f32, 1.562500e-02:-8>>
  return %padded : tensor<!quant.uniform<i4:f32, 1.562500e-02:-8>>
}
