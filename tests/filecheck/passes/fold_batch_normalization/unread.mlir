// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// The maximum and its position, of which one is read: positions need maxima, and not the reverse.

// CHECK-LABEL: @maximum
// CHECK:         %e = tensor.empty() : tensor<3xf32>
// CHECK-NEXT:    %m = linalg.generic {{.*}} ins(%x : tensor<3x4xf32>) outs(%e : tensor<3xf32>)
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:      %{{.*}} = arith.maximumf
// CHECK-NEXT:      linalg.yield %{{.*}} : f32
// CHECK-NEXT:    } -> tensor<3xf32>
// CHECK-NEXT:    return %m
func.func @maximum(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  %p = tensor.empty() : tensor<3xi64>
  %m, %at = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<3x4xf32>) outs(%e, %p : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%a: f32, %most: f32, %place: i64):
    %index = linalg.index 1 : index
    %here = arith.index_cast %index : index to i64
    %max = arith.maximumf %a, %most : f32
    %is_more = arith.cmpf ogt, %a, %most : f32
    %chosen = arith.select %is_more, %here, %place : i64
    linalg.yield %max, %chosen : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  return %m : tensor<3xf32>
}

// CHECK-LABEL: @position
// CHECK:         linalg.generic {{.*}} outs(%e, %p : tensor<3xf32>, tensor<3xi64>)
func.func @position(%x: tensor<3x4xf32>) -> tensor<3xi64> {
  %e = tensor.empty() : tensor<3xf32>
  %p = tensor.empty() : tensor<3xi64>
  %m, %at = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<3x4xf32>) outs(%e, %p : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%a: f32, %most: f32, %place: i64):
    %index = linalg.index 1 : index
    %here = arith.index_cast %index : index to i64
    %max = arith.maximumf %a, %most : f32
    %is_more = arith.cmpf ogt, %a, %most : f32
    %chosen = arith.select %is_more, %here, %place : i64
    linalg.yield %max, %chosen : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  return %at : tensor<3xi64>
}

// Only the output that nobody reads says how often the second loop runs.
// CHECK-LABEL: @length
// CHECK:         linalg.generic {{.*}} outs(%e, %p : tensor<3xf32>, tensor<3x4xf32>)
func.func @length(%x: tensor<3xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  %p = tensor.empty() : tensor<3x4xf32>
  %sum, %copy = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<3xf32>) outs(%e, %p : tensor<3xf32>, tensor<3x4xf32>) {
  ^bb0(%a: f32, %total: f32, %out: f32):
    %next = arith.addf %total, %a : f32
    linalg.yield %next, %a : f32, f32
  } -> (tensor<3xf32>, tensor<3x4xf32>)
  return %sum : tensor<3xf32>
}
