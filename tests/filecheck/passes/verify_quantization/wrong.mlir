// RUN: qdialect-opt %s --verify-quantization=strict --verify-diagnostics --split-input-file --allow-unregistered-dialect

// Operands and results have one storage.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!i16 = !quant.uniform<i16<-32767:32767>:f32, 0.5>
func.func @storage(%x: tensor<2x!u8>, %y: tensor<2x!i16>) -> tensor<2x!u8> {
  %0 = quant.dcast %x : tensor<2x!u8> to tensor<2xf32>
  %1 = quant.dcast %y : tensor<2x!i16> to tensor<2xf32>
  // expected-error @+1 {{'tosa.add' op has 'i16' in operand 1, and 'u8' in its result: an op computes in one precision; put a 'quant.requantize' before or after it}}
  %2 = tosa.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = quant.qcast %2 : tensor<2xf32> to tensor<2x!u8>
  return %3 : tensor<2x!u8>
}

// -----

// An activation has one scale.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!per_axis = !quant.uniform<u8:f32:0, {0.5:3, 0.25:3}>
func.func @per_axis(%x: tensor<2x!per_axis>) -> tensor<2x!u8> {
  %0 = quant.dcast %x : tensor<2x!per_axis> to tensor<2xf32>
  // expected-error @+1 {{reads or makes an activation with 2 scales: kernels have one for each activation; quantize it per tensor}}
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.qcast %1 : tensor<2xf32> to tensor<2x!u8>
  return %2 : tensor<2x!u8>
}

// -----

// Functions with a known range, and whole numbers.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!half = !quant.uniform<u8:f32, 1.5:3>
func.func @classes(%x: tensor<2x!u8>) -> (tensor<2x!u8>, tensor<2x!u8>, tensor<2x!half>) {
  %0 = quant.dcast %x : tensor<2x!u8> to tensor<2xf32>
  // expected-error @+1 {{is a tanh, and its result has 0.5:3: kernels make 0.0078125:128 of 'u8' for any data; run '--assign-fixed-values'}}
  %1 = tosa.tanh %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.qcast %1 : tensor<2xf32> to tensor<2x!u8>
  // expected-error @+1 {{is a logistic, and its result has 0.5:3: kernels make 0.00390625:0 of 'u8'}}
  %3 = tosa.sigmoid %0 : (tensor<2xf32>) -> tensor<2xf32>
  %4 = quant.qcast %3 : tensor<2xf32> to tensor<2x!u8>
  // expected-error @+1 {{computes whole numbers, and its result has scale 1.5: only a whole scale represents them exactly}}
  %5 = tosa.floor %0 : (tensor<2xf32>) -> tensor<2xf32>
  %6 = quant.qcast %5 : tensor<2xf32> to tensor<2x!half>
  return %2, %4, %6 : tensor<2x!u8>, tensor<2x!u8>, tensor<2x!half>
}

// -----

// What moves numbers moves their parameters, and what joins them shares them.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!other = !quant.uniform<u8:f32, 0.25:3>
!rows = !quant.uniform<u8:f32:0, {0.5:3, 0.25:3}>
func.func @moved(%x: tensor<2x3x!u8>, %y: tensor<2x3x!rows>) -> (tensor<3x2x!other>, tensor<4x3x!u8>, tensor<2x3xf32>) {
  %0 = quant.dcast %x : tensor<2x3x!u8> to tensor<2x3xf32>
  // expected-error @+1 {{only moves elements, and has 0.5:3 in operand 0 and 0.25:3 in its result: kernels copy codes; requantize the operand, or give both the same parameters}}
  %1 = tosa.transpose %0 {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = quant.qcast %1 : tensor<3x2xf32> to tensor<3x2x!other>
  %c = quant.constant dense<3> : tensor<2x3x!other>
  %3 = quant.dcast %c : tensor<2x3x!other> to tensor<2x3xf32>
  // expected-error @+1 {{only moves elements, and has 0.25:3 in operand 1 and 0.5:3 in its result}}
  %4 = tosa.concat %0, %3 {axis = 0 : i32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %5 = quant.qcast %4 : tensor<4x3xf32> to tensor<4x3x!u8>
  %6 = quant.dcast %y : tensor<2x3x!rows> to tensor<2x3xf32>
  // expected-error @+1 {{moves elements, but its result does not have their parameters: }}
  %7 = tosa.reverse %6 {axis = 0 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = quant.qcast %7 : tensor<2x3xf32> to tensor<2x3x!rows>
  %9 = quant.dcast %8 : tensor<2x3x!rows> to tensor<2x3xf32>
  return %2, %5, %9 : tensor<3x2x!other>, tensor<4x3x!u8>, tensor<2x3xf32>
}

// -----

// Zero points are codes, and zero where storage is wide.
!outside = !quant.uniform<u8:f32, 0.5:300>
!i16 = !quant.uniform<i16<-32767:32767>:f32, 0.5:7>
func.func @zero_points(%x: tensor<2x!outside>, %y: tensor<2x!i16>) -> (tensor<2x!outside>, tensor<2x!i16>) {
  %0 = quant.dcast %x : tensor<2x!outside> to tensor<2xf32>
  // expected-error @+1 {{has an activation of 'u8' with zero point 300, which is not a code: codes are from 0 to 255; choose one of them, so that zero is exact}}
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.qcast %1 : tensor<2xf32> to tensor<2x!outside>
  %3 = quant.dcast %y : tensor<2x!i16> to tensor<2xf32>
  // expected-error @+1 {{has an activation of 'i16' with zero point 7: storage of more than 8 bits is symmetric; use zero point 0}}
  %4 = tosa.abs %3 : (tensor<2xf32>) -> tensor<2xf32>
  %5 = quant.qcast %4 : tensor<2xf32> to tensor<2x!i16>
  return %2, %5 : tensor<2x!outside>, tensor<2x!i16>
}

// -----

// A value is quantized once.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!other = !quant.uniform<u8:f32, 0.25:3>
func.func @twice(%x: tensor<2x!u8>) -> (tensor<2x!other>, tensor<2x!u8>, tensor<2x!other>, tensor<2x!u8>) {
  %0 = quant.dcast %x : tensor<2x!u8> to tensor<2xf32>
  // expected-error @+1 {{'quant.qcast' op quantizes a dequantized value: use 'quant.requantize', which no cleanup removes}}
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!other>
  // expected-error @+1 {{has a result that is quantized to 2 types: quantize it to one, and requantize that for other readers}}
  %2 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %3 = quant.qcast %2 : tensor<2xf32> to tensor<2x!u8>
  %4 = quant.qcast %2 : tensor<2xf32> to tensor<2x!other>
  %5 = quant.requantize %1 : tensor<2x!other> to tensor<2x!u8>
  // expected-error @+1 {{'quant.requantize' op requantizes the result of a 'quant.requantize': read the operand of the first one}}
  %6 = quant.requantize %5 : tensor<2x!u8> to tensor<2x!other>
  // expected-error @+1 {{'quant.requantize' op changes nothing: read its operand}}
  %7 = quant.requantize %3 : tensor<2x!u8> to tensor<2x!u8>
  return %4, %5, %6, %7 : tensor<2x!other>, tensor<2x!u8>, tensor<2x!other>, tensor<2x!u8>
}

// -----

// Weights have a scale for each channel. A bias has the product of the scales, zero points of zero,
// and 32 bits.
!u8 = !quant.uniform<u8:f32, 0.5:3>
!summed = !quant.uniform<u8:f32:0, {0.5:3, 0.25:3}>
!channels = !quant.uniform<u8:f32:1, {0.5:3, 0.25:3, 0.125:3}>
!right = !quant.uniform<i32:f32:1, {0.25, 0.125, 0.0625}>
!wrong = !quant.uniform<i32:f32:1, {0.25, 0.126, 0.0625}>
!shifted = !quant.uniform<i32:f32:1, {0.25:1, 0.125, 0.0625}>
!short = !quant.uniform<i16:f32:1, {0.25, 0.125, 0.0625}>
func.func @layers(%x: tensor<4x2x!u8>, %i: tensor<4x3xf32>) -> (tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>) {
  %0 = quant.dcast %x : tensor<4x2x!u8> to tensor<4x2xf32>
  %1 = quant.constant dense<1> : tensor<2x3x!summed>
  %2 = quant.dcast %1 : tensor<2x3x!summed> to tensor<2x3xf32>
  // expected-error @+1 {{has weights with scales along axis 0, which is summed over: a sum of products has one scale for each channel, along axis 1; quantize them along that axis}}
  %3 = linalg.matmul ins(%0, %2 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = quant.qcast %3 : tensor<4x3xf32> to tensor<4x3x!u8>
  %5 = quant.constant dense<1> : tensor<2x3x!channels>
  %6 = quant.dcast %5 : tensor<2x3x!channels> to tensor<2x3xf32>
  %7 = quant.constant dense<9> : tensor<1x3x!right>
  %8 = quant.dcast %7 : tensor<1x3x!right> to tensor<1x3xf32>
  %9 = linalg.matmul ins(%0, %6 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  %10 = tosa.add %9, %8 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %11 = quant.qcast %10 : tensor<4x3xf32> to tensor<4x3x!u8>
  %12 = quant.constant dense<9> : tensor<1x3x!wrong>
  %13 = quant.dcast %12 : tensor<1x3x!wrong> to tensor<1x3xf32>
  %14 = linalg.matmul ins(%0, %6 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{has a bias with scale 0.126000002 at [0, 1], and input and weights whose scales have the product 0.125: a bias is added to sums of these products, and needs their scale; run '--assign-biases'}}
  %15 = tosa.add %14, %13 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %16 = quant.qcast %15 : tensor<4x3xf32> to tensor<4x3x!u8>
  %17 = quant.constant dense<9> : tensor<1x3x!shifted>
  %18 = quant.dcast %17 : tensor<1x3x!shifted> to tensor<1x3xf32>
  %19 = linalg.matmul ins(%0, %6 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{has a bias with zero point 1: it is added to sums, whose zero point is 0}}
  %20 = tosa.add %19, %18 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %21 = quant.qcast %20 : tensor<4x3xf32> to tensor<4x3x!u8>
  %22 = quant.constant dense<9> : tensor<1x3x!short>
  %23 = quant.dcast %22 : tensor<1x3x!short> to tensor<1x3xf32>
  %24 = linalg.matmul ins(%0, %6 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{has a bias of 16 bits, and activations of 8: sums of their products need signed integers of 32 bits}}
  %25 = tosa.add %24, %23 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %26 = quant.qcast %25 : tensor<4x3xf32> to tensor<4x3x!u8>
  return %4, %11, %16, %21, %26 : tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>, tensor<4x3x!u8>
}

// -----

// With 16 bits, sums need more than 32.
!i16 = !quant.uniform<i16<-32767:32767>:f32, 0.5>
!bias = !quant.uniform<i32:f32, 0.25>
func.func @wide(%x: tensor<4x2x!i16>, %i: tensor<4x3xf32>) -> (tensor<4x3x!i16>, tensor<4x3x!i16>) {
  %0 = quant.dcast %x : tensor<4x2x!i16> to tensor<4x2xf32>
  %1 = quant.constant dense<1> : tensor<2x3x!i16>
  %2 = quant.dcast %1 : tensor<2x3x!i16> to tensor<2x3xf32>
  %3 = quant.constant dense<9> : tensor<1x3x!bias>
  %4 = quant.dcast %3 : tensor<1x3x!bias> to tensor<1x3xf32>
  %5 = linalg.matmul ins(%0, %2 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{has a bias of 32 bits, and activations of 16: sums of their products need signed integers of 33 to 64 bits}}
  %6 = tosa.add %5, %4 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %7 = quant.qcast %6 : tensor<4x3xf32> to tensor<4x3x!i16>
  %8 = arith.constant dense<9> : tensor<1x3xi64>
  %9 = quant.dequantize_bias %8 {scales = dense<0.5> : tensor<1xf64>} : tensor<1x3xi64> to tensor<1x3xf32>
  %10 = linalg.matmul ins(%0, %2 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @+1 {{has a bias with scale 0.5, and input and weights whose scales have the product 0.25}}
  %11 = tosa.add %10, %9 : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %12 = quant.qcast %11 : tensor<4x3xf32> to tensor<4x3x!i16>
  return %7, %12 : tensor<4x3x!i16>, tensor<4x3x!i16>
}

// -----

// Nothing computes in floats between quantized values.
!u8 = !quant.uniform<u8:f32, 0.5:3>
func.func @floats(%x: tensor<4x2x!u8>, %f: tensor<4x2xf32>, %i: tensor<4x3xf32>) -> (tensor<4x2x!u8>, tensor<4x3x!u8>, tensor<4x2x!u8>) {
  %0 = quant.dcast %x : tensor<4x2x!u8> to tensor<4x2xf32>
  // expected-error @+1 {{'tosa.add' op reads operand 1 as floats, while its result is quantized: it computes in floats; record a range for that operand, or for a value that it is computed from}}
  %1 = tosa.add %0, %f : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = quant.qcast %1 : tensor<4x2xf32> to tensor<4x2x!u8>
  %w = arith.constant dense<1.0> : tensor<2x3xf32>
  // expected-error @+1 {{'linalg.matmul' op reads its weights as floats, while its result is quantized: it computes in floats; quantize them}}
  %3 = linalg.matmul ins(%0, %w : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = quant.qcast %3 : tensor<4x3xf32> to tensor<4x3x!u8>
  // expected-error @+1 {{'other.op' op is between quantized values, and no quantization rule for it is known: it computes in floats; register a rule for it}}
  %5 = "other.op"(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %6 = quant.qcast %5 : tensor<4x2xf32> to tensor<4x2x!u8>
  return %2, %4, %6 : tensor<4x2x!u8>, tensor<4x3x!u8>, tensor<4x2x!u8>
}
