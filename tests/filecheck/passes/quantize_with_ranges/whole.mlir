// RUN: qdialect-opt %s --quantize-with-ranges --remarks --verify-diagnostics --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --quantize-with-ranges --allow-unregistered-dialect -o %t && qdialect-opt %t --quantize-with-ranges --allow-unregistered-dialect | diff %t -
// RUN: qdialect-opt %s --quantize-with-ranges=save-ranges --allow-unregistered-dialect | filecheck %s --check-prefix=SAVED

// A layer is read with its bias, which counts in steps of the product of two scales.
// CHECK-LABEL: @layer
// CHECK-NEXT:    %x_1 = quant.qcast %x : {{.*}} to tensor<1x2x2x2x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
// CHECK-NEXT:    %x_2 = quant.dcast %x_1
// CHECK-NEXT:    %w = quant.constant dense<{{\[\[\[\[}}255, 0]]], {{\[\[\[}}255, 127]]]]> : tensor<2x1x1x2x!quant.uniform<u8:f32:0, {0.0029411765281111002:85,0.0078431377187371254}>>
// CHECK-NEXT:    %w_1 = quant.dcast %w
// CHECK-NEXT:    %b = quant.constant dense<[43350, -32512]> : tensor<2x!quant.uniform<i32:f32:0, {2.3068052541930228E-5,6.1514809203799814E-5}>>
// CHECK-NEXT:    %b_1 = quant.dcast %b
// CHECK-NEXT:    %z = "tosa.const"
// CHECK-NEXT:    %0 = tosa.conv2d %x_2, %w_1, %b_1, %z, %z
// CHECK-NEXT:    %1 = quant.qcast %0 : {{.*}} to tensor<1x2x2x2x!quant.uniform<u8:f32, 0.023529412224888802:170>>
// CHECK-NEXT:    %2 = quant.dcast %1
// CHECK-NEXT:    func.return %2
// SAVED-LABEL: @layer
// SAVED-NEXT:    %0 = quant.stats %x
// SAVED-NEXT:    %x_1 = quant.qcast %0
func.func @layer(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2x2x2xf32>
  %w = "tosa.const"() {values = dense<[[[[0.5, -0.25]]], [[[2.0, 1.0]]]]> : tensor<2x1x1x2xf32>} : () -> tensor<2x1x1x2xf32>
  %b = "tosa.const"() {values = dense<[1.0, -2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  // expected-remark @+1 {{quantized 'tosa.conv2d': its result is '!quant.uniform<u8:f32, 0.023529412224888802:170>', own}}
  %1 = tosa.conv2d %0, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x2xf32>, tensor<2x1x1x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>
  %2 = quant.stats %1 {layerStats = dense<[-4.0, 2.0]> : tensor<2xf32>} : tensor<1x2x2x2xf32>
  return %2 : tensor<1x2x2x2xf32>
}

// What is joined has the parameters of the result. Another op reads %x, too: it is requantized.
// CHECK-LABEL: @joined
// CHECK:         %x_2 = quant.dcast %x_1
// CHECK-NEXT:    %x_3 = quant.requantize %x_1 : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.011764706112444401:85>>
// CHECK-NEXT:    %x_4 = quant.dcast %x_3
// CHECK-NEXT:    %y_1 = quant.qcast %y : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.011764706112444401:85>>
// CHECK-NEXT:    %y_2 = quant.dcast %y_1
// CHECK-NEXT:    %0 = tosa.concat %x_4, %y_2
// CHECK-NEXT:    %1 = quant.qcast %0 : {{.*}} to tensor<4x!quant.uniform<u8:f32, 0.011764706112444401:85>>
// CHECK-NEXT:    %2 = quant.dcast %1
// CHECK-NEXT:    %3 = tosa.tanh %x_2
// CHECK-NEXT:    %4 = quant.qcast %3 : {{.*}} to tensor<2x!quant.uniform<u8:f32, 7.812500e-03:128>>
func.func @joined(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %1 = quant.stats %y {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{quantized 'tosa.concat': its result is '!quant.uniform<u8:f32, 0.011764706112444401:85>', own}}
  %2 = tosa.concat %0, %1 {axis = 0 : i32} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %3 = quant.stats %2 {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<4xf32>
  // expected-remark @+1 {{quantized 'tosa.tanh': its result is '!quant.uniform<u8:f32, 7.812500e-03:128>', fixed}}
  %4 = tosa.tanh %0 : (tensor<2xf32>) -> tensor<2xf32>
  return %3, %4 : tensor<4xf32>, tensor<2xf32>
}

// What pads is below each number: it is clamped, and the parameters are those of the operand.
// CHECK-LABEL: @padded_below
// CHECK:         %p = quant.constant dense<0> : tensor<1x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
// CHECK:         tosa.pad
// CHECK-NEXT:    quant.qcast {{.*}} to tensor<4x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
func.func @padded_below(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %s = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %p = "tosa.const"() {values = dense<-3.40282347e+38> : tensor<1xf32>} : () -> tensor<1xf32>
  // expected-remark @+1 {{quantized 'tosa.pad'}}
  %1 = tosa.pad %0, %s, %p : (tensor<2xf32>, !tosa.shape<2>, tensor<1xf32>) -> tensor<4xf32>
  %2 = quant.stats %1 {layerStats = dense<[-3.40282347e+38, 1.0]> : tensor<2xf32>} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// An op that is not known stays in floats, and so does what has no range.
// CHECK-LABEL: @floats
// CHECK-NEXT:    %0 = "other.op"(%x)
// CHECK-NEXT:    %1 = tosa.abs %0
// CHECK-NEXT:    func.return %1
func.func @floats(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{not quantized: no quantization rule for it is known [unknown-op]}}
  %1 = "other.op"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-remark @+1 {{not quantized: there is no record of its operand '@floats#0' [no-record]}}
  %2 = tosa.abs %1 : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// A softmax is one function: what is between its ops is not quantized.
// CHECK-LABEL: @softmax
// CHECK:         %x_2 = quant.dcast %x_1
// CHECK-NEXT:    %0 = tosa.reduce_max %x_2
// CHECK-NEXT:    %1 = tosa.sub %x_2, %0
// CHECK-NEXT:    %2 = tosa.exp %1
// CHECK-NEXT:    %3 = tosa.reduce_sum %2
// CHECK-NEXT:    %4 = tosa.reciprocal %3
// CHECK-NEXT:    %5 = tosa.mul %2, %4
// CHECK-NEXT:    %6 = quant.qcast %5 : {{.*}} to tensor<1x4x!quant.uniform<u8:f32, 0.0039215688593685627>>
func.func @softmax(%x: tensor<1x4xf32>, %shift: tensor<1xi8>) -> tensor<1x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x4xf32>
  %1 = tosa.reduce_max %0 {axis = 1 : i32} : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %2 = tosa.sub %0, %1 : (tensor<1x4xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
  %3 = tosa.exp %2 : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %4 = tosa.reduce_sum %3 {axis = 1 : i32} : (tensor<1x4xf32>) -> tensor<1x1xf32>
  %5 = tosa.reciprocal %4 : (tensor<1x1xf32>) -> tensor<1x1xf32>
  // expected-remark @+1 {{quantized 'tosa.mul': softmax of 6 ops: its result is '!quant.uniform<u8:f32, 0.0039215688593685627>', fixed}}
  %6 = tosa.mul %3, %5, %shift : (tensor<1x4xf32>, tensor<1x1xf32>, tensor<1xi8>) -> tensor<1x4xf32>
  return %6 : tensor<1x4xf32>
}

// What a relu makes of quantized values has their parameters, unless it has a range.
// CHECK-LABEL: @behind_relu
// CHECK:         %r = arith.maximumf
// CHECK-NEXT:    quant.qcast %r : {{.*}} to tensor<2x!quant.uniform<u8:f32, 5.000000e-02:100>>
// CHECK:         %s = arith.maximumf
// CHECK-NEXT:    quant.qcast %s : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0039215688593685627>>
func.func @behind_relu(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %z = arith.constant dense<0.0> : tensor<2xf32>
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 0.05:100>>
  %1 = quant.dcast %0 : tensor<2x!quant.uniform<u8:f32, 0.05:100>> to tensor<2xf32>
  // expected-remark @+1 {{quantized 'arith.maximumf': its result is '!quant.uniform<u8:f32, 5.000000e-02:100>', shared}}
  %r = arith.maximumf %1, %z : tensor<2xf32>
  // expected-remark @+1 {{quantized 'arith.maximumf': its result is '!quant.uniform<u8:f32, 0.0039215688593685627>', own}}
  %s = arith.maximumf %1, %z : tensor<2xf32>
  %2 = quant.stats %s {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  return %r, %2 : tensor<2xf32>, tensor<2xf32>
}
