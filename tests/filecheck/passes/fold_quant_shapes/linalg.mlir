// RUN: qdialect-opt %s --fold-quant-shapes=max-repetition=1024 | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt --fold-quant-shapes=max-repetition=1024 | filecheck %s

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>

// CHECK-LABEL: @transpose
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>
// CHECK-NEXT: %q = quant.scast %w : tensor<3x2xi8> to tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: %f = quant.dcast %q : {{.*}} to tensor<3x2xf32>
// CHECK-NEXT: return %f
func.func @transpose() -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = quant.scast %w : tensor<2x3xi8> to tensor<2x3x!rows>
  %f = quant.dcast %q : tensor<2x3x!rows> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%f : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  return %t : tensor<3x2xf32>
}

// CHECK-LABEL: @broadcast
// CHECK-NEXT: arith.constant dense<{{\[\[}}1, 1, 1], [4, 4, 4]]> : tensor<2x3xi8>
// CHECK-NEXT: to tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @broadcast() -> tensor<2x3xf32> {
  %w = arith.constant dense<[1, 4]> : tensor<2xi8>
  %q = quant.scast %w : tensor<2xi8> to tensor<2x!rows>
  %f = quant.dcast %q : tensor<2x!rows> to tensor<2xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %b = linalg.broadcast ins(%f : tensor<2xf32>) outs(%e : tensor<2x3xf32>) dimensions = [1]
  return %b : tensor<2x3xf32>
}

// A generic op that yields its input: a permutation that is not its own inverse, on the
// side that is written, and a repeated axis of one position that is read at zero.
// CHECK-LABEL: @generic
// CHECK-NEXT: arith.constant dense<{{\[\[\[}}1], [4]], {{\[\[}}2], [5]], {{\[\[}}3], [6]]]> : tensor<3x2x1xi8>
// CHECK-NEXT: to tensor<3x2x1x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK: arith.constant dense<{{\[\[}}7, 7, 7], [8, 8, 8]]> : tensor<2x3xi8>
// CHECK-NOT: linalg
// CHECK-LABEL: @left
func.func @generic() -> (tensor<3x2x1xf32>, tensor<2x3xi8>) {
  %w = arith.constant dense<[[[1, 2, 3], [4, 5, 6]]]> : tensor<1x2x3xi8>
  %q = quant.scast %w : tensor<1x2x3xi8> to tensor<1x2x3x!quant.uniform<i8:f32:1, {0.5,0.25:3}>>
  %f = quant.dcast %q : tensor<1x2x3x!quant.uniform<i8:f32:1, {0.5,0.25:3}>> to tensor<1x2x3xf32>
  %e = tensor.empty() : tensor<3x2x1xf32>
  %t = linalg.generic {
    indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (c, b, a)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  } ins(%f : tensor<1x2x3xf32>) outs(%e : tensor<3x2x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x2x1xf32>
  %v = arith.constant dense<[[7], [8]]> : tensor<2x1xi8>
  %i = tensor.empty() : tensor<2x3xi8>
  %b = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (a, 0)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%v : tensor<2x1xi8>) outs(%i : tensor<2x3xi8>) {
  ^bb0(%in: i8, %out: i8):
    linalg.yield %in : i8
  } -> tensor<2x3xi8>
  return %t, %b : tensor<3x2x1xf32>, tensor<2x3xi8>
}

// What computes is left, and what reads a diagonal.
// CHECK: linalg.generic
// CHECK: linalg.generic
func.func @left() -> (tensor<2x2xi8>, tensor<2xi8>) {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %e = tensor.empty() : tensor<2x2xi8>
  %s = linalg.generic {
    indexing_maps = [affine_map<(a, b) -> (b, a)>, affine_map<(a, b) -> (a, b)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%w : tensor<2x2xi8>) outs(%e : tensor<2x2xi8>) {
  ^bb0(%in: i8, %out: i8):
    %sum = arith.addi %in, %in : i8
    linalg.yield %sum : i8
  } -> tensor<2x2xi8>
  %v = tensor.empty() : tensor<2xi8>
  %d = linalg.generic {
    indexing_maps = [affine_map<(a) -> (a, a)>, affine_map<(a) -> (a)>],
    iterator_types = ["parallel"]
  } ins(%w : tensor<2x2xi8>) outs(%v : tensor<2xi8>) {
  ^bb0(%in: i8, %out: i8):
    linalg.yield %in : i8
  } -> tensor<2xi8>
  return %s, %d : tensor<2x2xi8>, tensor<2xi8>
}

// A constant that two ops transpose and a third uses: it stays, and its users are copies.
// CHECK-LABEL: @shared
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK: [[T:%[a-z_0-9]+]] = arith.constant dense<{{\[\[}}1, 3], [2, 4]]> : tensor<2x2xi8>
// CHECK: return %w, [[T]]
func.func @shared() -> (tensor<2x2xi8>, tensor<2x2xi8>) {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %e = tensor.empty() : tensor<2x2xi8>
  %t = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%w : tensor<2x2xi8>) outs(%e : tensor<2x2xi8>) {
  ^bb0(%in: i8, %out: i8):
    linalg.yield %in : i8
  } -> tensor<2x2xi8>
  return %w, %t : tensor<2x2xi8>, tensor<2x2xi8>
}
