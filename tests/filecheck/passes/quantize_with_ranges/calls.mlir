// RUN: qdialect-opt %s --quantize-with-ranges --remarks --verify-diagnostics | filecheck %s

// Values of a function are quantized for each call of it, and with what is around it. The mask does
// not set the scale of what is masked.
// CHECK-LABEL: @main
// CHECK-NEXT:    %a = math.absf %x
// CHECK-NEXT:    %m = arith.constant
// CHECK-NEXT:    %s = arith.select %c, %a, %m
// CHECK-NEXT:    %e = math.exp %s
// CHECK-NEXT:    %e_1 = quant.qcast %e : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 0.011764706112444401>>
// CHECK-NEXT:    %e_2 = quant.dcast %e_1
// CHECK-NEXT:    %r = math.tanh %e_2
func.func @main(%x: tensor<2xf32>, %c: tensor<2xi1>) -> tensor<2xf32> {
  // expected-remark @+3 {{not quantized: there is no record of its operand 'x' [no-record]}}
  // expected-remark @+2 {{not quantized: it masks with numbers far outside of the range of the other ones [numerics]}}
  // The ops of a function have the place of the op before the call.
  %a = math.absf %x : tensor<2xf32>
  %0 = quant.stats %a {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{inlined 'func.call': its function is '@masked'}}
  %y = call @masked(%0, %c) : (tensor<2xf32>, tensor<2xi1>) -> tensor<2xf32>
  // expected-remark @+1 {{its operand 's' stays in floats, as 's' does: it masks with numbers}}
  %e = math.exp %y : tensor<2xf32>
  %1 = quant.stats %e {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{quantized 'math.tanh'}}
  %r = math.tanh %1 : tensor<2xf32>
  return %r : tensor<2xf32>
}
// CHECK-NOT:     func private @masked
func.func private @masked(%v: tensor<2xf32>, %c: tensor<2xi1>) -> tensor<2xf32> {
  %m = arith.constant dense<-100.0> : tensor<2xf32>
  %s = arith.select %c, %v, %m : tensor<2xi1>, tensor<2xf32>
  %1 = quant.stats %s {layerStats = dense<[-100.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Functions that call themselves stay.
// CHECK-LABEL: @endless
// CHECK-NEXT:    func.call @endless
func.func @endless(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-remark @+1 {{not quantized: the call stays: its function calls itself [unknown-op]}}
  %0 = call @endless(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
