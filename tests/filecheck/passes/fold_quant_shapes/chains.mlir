// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

!p = !quant.uniform<i8:f32, 0.5>
!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!a1 = !quant.uniform<i8:f32:1, {0.5:3,0.25}>

// One constant is left of the chain, with the name and the attributes of the first.
// CHECK-LABEL: @chain
// CHECK-NEXT:    %weight = quant.constant dense<[{{\[}}6, 5, 4], [3, 2, 1]]> {calibration = "conv1.weight"} : tensor<2x3x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3}>>
// CHECK-NEXT:    func.return %weight
func.func @chain() -> tensor<2x3x!quant.uniform<i8:f32:0, {0.25,0.5:3}>> {
  %weight = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> {calibration = "conv1.weight"} : tensor<2x3x!a0>
  %t = quant.transpose %weight permutation = [1, 0] : tensor<2x3x!a0> to tensor<3x2x!a1>
  %v = quant.reverse %t dims = [0, 1] : tensor<3x2x!a1> to tensor<3x2x!quant.uniform<i8:f32:1, {0.25,0.5:3}>>
  %r = quant.reshape %v : tensor<3x2x!quant.uniform<i8:f32:1, {0.25,0.5:3}>> to tensor<3x1x2x!quant.uniform<i8:f32:2, {0.25,0.5:3}>>
  %u = quant.transpose %r permutation = [2, 1, 0] : tensor<3x1x2x!quant.uniform<i8:f32:2, {0.25,0.5:3}>> to tensor<2x1x3x!quant.uniform<i8:f32:0, {0.25,0.5:3}>>
  %s = quant.reshape %u : tensor<2x1x3x!quant.uniform<i8:f32:0, {0.25,0.5:3}>> to tensor<2x3x!quant.uniform<i8:f32:0, {0.25,0.5:3}>>
  return %s : tensor<2x3x!quant.uniform<i8:f32:0, {0.25,0.5:3}>>
}

// A constant that is used elsewhere stays.
// CHECK-LABEL: @shared
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32:0,
// CHECK-NEXT:    %w_1 = quant.constant dense<[{{\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2x!quant.uniform<i8:f32:1,
// CHECK-NEXT:    func.return %w, %w_1
func.func @shared() -> (tensor<2x3x!a0>, tensor<3x2x!a1>) {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!a0>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!a0> to tensor<3x2x!a1>
  return %w, %t : tensor<2x3x!a0>, tensor<3x2x!a1>
}

// A constant outside, the shape op inside of a region.
// CHECK-LABEL: @regions
// CHECK-NEXT:    %r = scf.if %c -> (tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>) {
// CHECK-NEXT:      %w = quant.constant dense<[2, 1]>
// CHECK-NEXT:      scf.yield %w
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %w_1 = quant.constant dense<[1, 2]>
// CHECK-NEXT:      scf.yield %w_1
func.func @regions(%c: i1) -> tensor<2x!p> {
  %w = quant.constant dense<[[1, 2]]> : tensor<1x2x!p>
  %r = scf.if %c -> (tensor<2x!p>) {
    %0 = quant.reshape %w : tensor<1x2x!p> to tensor<2x!p>
    %1 = quant.reverse %0 dims = [0] : tensor<2x!p> to tensor<2x!p>
    scf.yield %1 : tensor<2x!p>
  } else {
    %0 = quant.reshape %w : tensor<1x2x!p> to tensor<2x!p>
    scf.yield %0 : tensor<2x!p>
  }
  return %r : tensor<2x!p>
}

// The result type is what others see, and is kept, dynamic dimensions included.
// CHECK-LABEL: @dynamic_result
// CHECK-NEXT:    quant.constant
// CHECK-NEXT:    quant.reverse
func.func @dynamic_result() -> tensor<?x!p> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!p>
  %0 = quant.reverse %w dims = [0] : tensor<2x!p> to tensor<?x!p>
  return %0 : tensor<?x!p>
}
