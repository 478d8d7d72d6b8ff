// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=scheme=torch-i8 | filecheck %s --check-prefix=TORCH
// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARKS

// A value that only a clamp reads has the parameters of the clamp's result, in all its forms. The
// result is the same as if the value were not rounded: rounding is monotonic.

// CHECK-LABEL: func.func @select(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.011764706112444401>>
// REMARKS: quantized '{{.*}}': clamp of
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.011764706112444401>>
func.func @select(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = tosa.abs %s : (tensor<4xf32>) -> tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %p = tosa.greater %y1, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %r = tosa.select %p, %y1, %z : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %r {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @arith(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.011764706112444401>>
// REMARKS: quantized '{{.*}}': clamp of
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.011764706112444401>>
func.func @arith(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = math.absf %s : tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %six = arith.constant dense<6.0> : tensor<4xf32>
  %p = arith.cmpf ogt, %y1, %z : tensor<4xf32>
  %r = arith.select %p, %y1, %z : tensor<4xi1>, tensor<4xf32>
  %p2 = arith.cmpf olt, %r, %six : tensor<4xf32>
  %q = arith.select %p2, %r, %six : tensor<4xi1>, tensor<4xf32>
  %r1 = quant.stats %q {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @maxmin(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.011764706112444401>>
// REMARKS: quantized '{{.*}}': clamp of
// CHECK-NOT: quant.qcast %r
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.011764706112444401>>
func.func @maxmin(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = math.absf %s : tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %six = arith.constant dense<6.0> : tensor<4xf32>
  %r = arith.maximumf %y1, %z : tensor<4xf32>
  %r9 = quant.stats %r {layerStats = dense<[0.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %q = arith.minimumf %r9, %six : tensor<4xf32>
  %r1 = quant.stats %q {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @generic(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.011764706112444401>>
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.011764706112444401>>
func.func @generic(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = math.absf %s : tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%y1 : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.cmpf ult, %in, %z : f32
    %2 = arith.select %1, %z, %in : f32
    %3 = arith.cmpf ugt, %2, %six : f32
    %4 = arith.select %3, %six, %2 : f32
    linalg.yield %4 : f32
  } -> tensor<4xf32>
  %r1 = quant.stats %q {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @stablehlo(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.011764706112444401>>
// REMARKS: quantized '{{.*}}': clamp of
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.011764706112444401>>
func.func @stablehlo(%x: tensor<2x2xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<2x2xf32>
  %y = "stablehlo.abs"(%s) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y1 = quant.stats %y {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<2x2xf32>
  %t = "stablehlo.reshape"(%y1) : (tensor<2x2xf32>) -> tensor<4xf32>
  %y2 = quant.stats %t {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = "stablehlo.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %z2 = "stablehlo.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %p = "stablehlo.compare"(%y2, %z) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %q = "stablehlo.select"(%p, %z2, %y2) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %q {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @nested(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK-NEXT: dcast
// CHECK: quant.qcast %y{{.*}} 0.0078431377187371254:128>>
// REMARKS: quantized '{{.*}}': clamp of
// CHECK: quant.qcast %{{[qr]}}{{.*}} 0.0078431377187371254:128>>
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y1 = "stablehlo.abs"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %y2 = quant.stats %y1 {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = "stablehlo.constant"() {value = dense<-1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %one = "stablehlo.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %p = "stablehlo.compare"(%y2, %z) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %q = "stablehlo.select"(%p, %z, %y2) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %p1 = "stablehlo.compare"(%y2, %one) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %q1 = "stablehlo.select"(%p1, %one, %q) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %q1 {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// The constants of the comparison and of the selection differ: this is another function.
// CHECK-LABEL: func.func @leaky(
// CHECK: quant.qcast %y{{.*}} 0.19607843458652496:102>>
// REMARKS: gate of 2 ops
func.func @leaky(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y1 = "stablehlo.abs"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %y2 = quant.stats %y1 {layerStats = dense<[-20.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %z = "stablehlo.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %one = "stablehlo.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %p = "stablehlo.compare"(%y2, %z) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %q = "stablehlo.select"(%p, %one, %y2) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %q {layerStats = dense<[-0.0, 4.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// The numbers that are clamped to 2 have codes of their own: zero has one in any range.
// CHECK-LABEL: func.func @above_zero(
// CHECK: quant.qcast %y {{.*}} 0.023529412224888802>>
// CHECK: quant.qcast %r {{.*}} 0.023529412224888802>>
// TORCH-LABEL: func.func @above_zero(
// TORCH: quant.qcast %y {{.*}} 0.023529412224888802:-128>>
// TORCH: quant.qcast %r {{.*}} 0.023529412224888802:-128>>
func.func @above_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = tosa.exp %s : (tensor<4xf32>) -> tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[0.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %r = tosa.clamp %y1 {min_val = 2.0 : f32, max_val = 6.0 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %r {layerStats = dense<[2.0, 6.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1 : tensor<4xf32>
}

// Another op reads the value, too; and an argument has the range that its callers know.
// CHECK-LABEL: func.func @read_twice(
// CHECK: quant.qcast %x {{.*}} 0.019607843831181526:102>>
// CHECK: quant.qcast %y {{.*}} 0.11764705926179886>>
func.func @read_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = quant.stats %x {layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %a = tosa.clamp %s {min_val = 0.0 : f32, max_val = 6.0 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = quant.stats %a {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<4xf32>
  %y = tosa.exp %a1 : (tensor<4xf32>) -> tensor<4xf32>
  %y1 = quant.stats %y {layerStats = dense<[0.0, 30.0]> : tensor<2xf32>} : tensor<4xf32>
  %r = tosa.clamp %y1 {min_val = 2.0 : f32, max_val = 6.0 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %r1 = quant.stats %r {layerStats = dense<[2.0, 6.0]> : tensor<2xf32>} : tensor<4xf32>
  return %r1, %y1 : tensor<4xf32>, tensor<4xf32>
}
