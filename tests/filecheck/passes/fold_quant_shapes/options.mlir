// RUN: qdialect-opt %s --fold-quant-shapes="max-growth=2" | filecheck %s --check-prefix FOLDED
// RUN: qdialect-opt %s --fold-quant-shapes="max-growth=1" | filecheck %s --check-prefix KEPT
// RUN: qdialect-opt %s -p 'fold-quant-shapes{max-growth=1}' | filecheck %s --check-prefix KEPT

// Two bytes are repeated twice.
// FOLDED: quant.constant dense<[{{\[}}1, 1], [2, 2]]>
// KEPT: quant.broadcast_in_dim
!p = !quant.uniform<i8:f32, 0.5>
func.func @f() -> tensor<2x2x!p> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!p>
  %b = quant.broadcast_in_dim %w dims = [0] : tensor<2x!p> to tensor<2x2x!p>
  return %b : tensor<2x2x!p>
}
