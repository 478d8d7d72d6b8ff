// RUN: qdialect-opt %s --quantize-with-ranges --remarks --verify-diagnostics | filecheck %s
// RUN: qdialect-opt %s --quantize-with-ranges --lower-to-integers | filecheck %s --check-prefix=INTEGERS
// RUN: qdialect-opt %s --quantize-with-ranges=ops=sums-of-products | filecheck %s --check-prefix=LAYERS

// A product with a constant of equal numbers is a sum. A function that begins with one is no layer:
// neither in integers, nor where layers alone are quantized.
// CHECK-LABEL: @shares
// CHECK:         quant.dcast
// CHECK-NOT:     = quant.
// CHECK:         tosa.mul
// CHECK-NEXT:    quant.qcast
// INTEGERS-LABEL: @shares
// INTEGERS:         tosa.matmul {{.*}} -> tensor<1x2x1xf32>
// INTEGERS:         tosa.mul {{.*}} -> tensor<1x2x4xf32>
// LAYERS-LABEL: @shares
// LAYERS-NOT:     = quant.
// LAYERS:       @in_a_body
func.func @shares(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<1x2x4xf32>
  %w = "tosa.const"() {values = dense<0.25> : tensor<1x4x1xf32>} : () -> tensor<1x4x1xf32>
  %zp = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %shift = "tosa.const"() {values = dense<0> : tensor<1xi8>} : () -> tensor<1xi8>
  %mean = tosa.matmul %0, %w, %zp, %zp : (tensor<1x2x4xf32>, tensor<1x4x1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x1xf32>
  %factor = tosa.reciprocal %mean : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  // expected-remark @+1 {{quantized 'tosa.mul': normalization of 3 ops}}
  %y = tosa.mul %0, %factor, %shift : (tensor<1x2x4xf32>, tensor<1x2x1xf32>, tensor<1xi8>) -> tensor<1x2x4xf32>
  %1 = quant.stats %y {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<1x2x4xf32>
  return %1 : tensor<1x2x4xf32>
}

// CHECK-LABEL: @in_a_body
// CHECK:         quant.dcast
// CHECK-NOT:     = quant.
// CHECK:         linalg.generic
// CHECK-NOT:     = quant.
// CHECK:         linalg.generic
// CHECK:         quant.qcast
// CHECK-LABEL: @unequal
func.func @in_a_body(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2x4xf32>
  %w = arith.constant dense<0.25> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<2xf32>
  %whole = tensor.empty() : tensor<2x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<2xf32>) -> tensor<2xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%0, %w : tensor<2x4xf32>, tensor<4xf32>) outs(%start : tensor<2xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  // expected-remark @+1 {{quantized 'linalg.generic': normalization of 2 ops}}
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %mean : tensor<2x4xf32>, tensor<2xf32>) outs(%whole : tensor<2x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %q = arith.divf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<2x4xf32>
  %1 = quant.stats %y {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// Weights that differ make a layer, and so does what the sums start from.
// CHECK:         %w = quant.constant dense<[85, 85, 85, 255]>
// CHECK:         quant.qcast {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0078431377187371254>>
// CHECK-LABEL: @added
func.func @unequal(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2x4xf32>
  %w = arith.constant dense<[0.25, 0.25, 0.25, 0.75]> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<2xf32>
  %whole = tensor.empty() : tensor<2x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<2xf32>) -> tensor<2xf32>
  // expected-remark @+1 {{quantized 'linalg.matvec': its result is}}
  %mean = linalg.matvec ins(%0, %w : tensor<2x4xf32>, tensor<4xf32>) outs(%start : tensor<2xf32>) -> tensor<2xf32>
  %1 = quant.stats %mean {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{quantized 'linalg.broadcast': its result is}}
  %rows = linalg.broadcast ins(%1 : tensor<2xf32>) outs(%whole : tensor<2x4xf32>) dimensions = [1]
  // expected-remark @+1 {{quantized 'arith.divf': its result is}}
  %y = arith.divf %0, %rows : tensor<2x4xf32>
  %2 = quant.stats %y {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// CHECK:         %w = quant.constant
// CHECK:         quant.qcast {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0078431377187371254>>
func.func @added(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2x4xf32>
  %w = arith.constant dense<0.25> : tensor<4xf32>
  %start = arith.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %whole = tensor.empty() : tensor<2x4xf32>
  // expected-remark @+1 {{quantized 'linalg.matvec': its result is}}
  %mean = linalg.matvec ins(%0, %w : tensor<2x4xf32>, tensor<4xf32>) outs(%start : tensor<2xf32>) -> tensor<2xf32>
  %1 = quant.stats %mean {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{quantized 'linalg.broadcast': its result is}}
  %rows = linalg.broadcast ins(%1 : tensor<2xf32>) outs(%whole : tensor<2x4xf32>) dimensions = [1]
  // expected-remark @+1 {{quantized 'arith.divf': its result is}}
  %y = arith.divf %0, %rows : tensor<2x4xf32>
  %2 = quant.stats %y {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// How many elements a sum has is known where other lengths are not.
// CHECK-LABEL: @of_any_length
// CHECK:         quant.dcast
// CHECK-NOT:     = quant.
// CHECK:         stablehlo.divide
func.func @of_any_length(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<?x4xf32>
  %w = stablehlo.constant dense<0.25> : tensor<4x4xf32>
  %mean = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %centered = stablehlo.subtract %0, %mean : tensor<?x4xf32>
  %squares = stablehlo.multiply %centered, %centered : tensor<?x4xf32>
  %variance = stablehlo.dot_general %squares, %w, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x4xf32>) -> tensor<?x4xf32>
  %deviation = stablehlo.sqrt %variance : tensor<?x4xf32>
  // expected-remark @+1 {{quantized 'stablehlo.divide': normalization of 6 ops}}
  %y = stablehlo.divide %centered, %deviation : tensor<?x4xf32>
  %1 = quant.stats %y {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// A body that adds a constant to exponentials makes no softmax of them.
// CHECK-LABEL: @sum_of_sums
// CHECK:         quant.qcast %y {{.*}} 0.015686275437474251>>
func.func @sum_of_sums(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2x4xf32>
  %w = arith.constant dense<[-0.5, -0.25, 0.25, -0.75]> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %row = tensor.empty() : tensor<2xf32>
  %whole = tensor.empty() : tensor<2x4xf32>
  %powers = math.exp %0 : tensor<2x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%row : tensor<2xf32>) -> tensor<2xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%powers, %w : tensor<2x4xf32>, tensor<4xf32>) outs(%start : tensor<2xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.addf %a, %b : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  } -> tensor<2xf32>
  %rows = linalg.broadcast ins(%sums : tensor<2xf32>) outs(%whole : tensor<2x4xf32>) dimensions = [1]
  // expected-remark @+1 {{quantized 'arith.divf': normalization of 4 ops}}
  %y = arith.divf %powers, %rows : tensor<2x4xf32>
  %1 = quant.stats %y {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
