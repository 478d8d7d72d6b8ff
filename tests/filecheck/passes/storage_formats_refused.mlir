// Floats and tables as storage are refused by what reads integers, with the type; or left as they are.

// RUN: not qdialect-opt %s --quantize-with-ranges 2>&1 | filecheck %s --check-prefix QUANTIZE
// RUN: not qdialect-opt %s --verify-quantization 2>&1 | filecheck %s --check-prefix QUANTIZE
// RUN: not qdialect-opt %s --equalize-inputs 2>&1 | filecheck %s --check-prefix QUANTIZE
// RUN: qdialect-opt %s --lower-dequantization=to=linalg --remarks --verify-diagnostics
// RUN: qdialect-opt %s --shift-storage="from=u8 to=i8" | filecheck %s --check-prefix LEFT

!f8 = !quant.uniform<f8E4M3FN:f32:0, {0.5,0.25}>
!table = !quant.uniform<!quant.quantile<ui2:f32, {-1.0,0.0,0.1,1.0}>:f32, 0.5>

// QUANTIZE: error: 'quant.constant' op cannot be quantized or verified: it stores codes of f8E4M3FN, and integers are needed
// LEFT: quant.constant {{.*}}f8E4M3FN
func.func @main(%x: tensor<2x3x!table>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %w = quant.constant dense<[[1.0, 2.0, 0x7F], [-0.0, 3.0, 5.0]]> : tensor<2x3x!f8>
  // expected-remark @below {{not lowered: it stores codes of f8E4M3FN, and integers are needed}}
  %0 = quant.dcast %w : tensor<2x3x!f8> to tensor<2x3xf32>
  // expected-remark @below {{not lowered: it stores codes of !quant.quantile<ui2:f32>, and integers are needed}}
  %1 = quant.dcast %x : tensor<2x3x!table> to tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}
