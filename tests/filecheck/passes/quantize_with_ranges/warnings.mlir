// RUN: qdialect-opt %s --quantize-with-ranges -o /dev/null 2>&1 | filecheck %s --check-prefix=NO-RANGES
// RUN: qdialect-opt %s --equalize-inputs=layers=nope -o /dev/null 2>&1 | filecheck %s --check-prefix=LAYER
// RUN: qdialect-opt %s --equalize-inputs -o /dev/null 2>&1 | filecheck %s --check-prefix=NOT-EQUALIZED
// RUN: qdialect-opt %s --assign-activations --assign-weights --write-quantized -o /dev/null 2>&1 | filecheck %s --check-prefix=NO-RANGES
// RUN: qdialect-opt %S/../quantize_weights/refused.mlir --split-input-file --assign-weights -o /dev/null 2>&1 | filecheck %s --check-prefix=NAN
// RUN: qdialect-opt %s --canonicalize -o /dev/null 2>&1 | filecheck %s --check-prefix=ROUNDING
// RUN: qdialect-opt %s --strip-func-quant-types -o /dev/null 2>&1 | filecheck %s --check-prefix=ROUNDING
// RUN: qdialect-opt %s --lower-quant-ops -o /dev/null 2>&1 | filecheck %s --check-prefix=ROUNDING
// RUN: qdialect-opt %s --lower-quant-ops=keep-round-trips=true --canonicalize -o %t.mlir 2>&1 | filecheck %s --allow-empty --check-prefix=KEPT

// KEPT-NOT: warning
// What is wrong is told without --remarks.
// NO-RANGES: warning: nothing is quantized: there is no record of its result 'y'; run '--attach-ranges' before
// NOT-EQUALIZED: warning: nothing is equalized: there is no record of its input
// NAN: warning: 'linalg.matmul' op stays float: its weights: element [1, 1] is NaN, which has no code
// LAYER: warning: no layer has the key 'nope'
// ROUNDING: warning: the rounding of 1 value is lost: a 'quant.dcast' of a 'quant.qcast' is dropped, as in MLIR
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 0.5:3>>
  %1 = quant.dcast %0 : tensor<2x!quant.uniform<u8:f32, 0.5:3>> to tensor<2xf32>
  %y = math.exp %1 : tensor<2xf32>
  return %y : tensor<2xf32>
}

func.func @layer(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = linalg.matmul ins(%a, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%b : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
