// RUN: qdialect-opt %s --fold-batch-normalization --allow-unregistered-dialect | filecheck %s

// A convolution without a bias gets one.
// CHECK-LABEL: @convolution
// CHECK:         %bias = "torch.vtensor.literal"() <{value = dense<[-5.000000e-01, 1.000000e+00]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
// CHECK-NEXT:    %w = "torch.vtensor.literal"() <{value = dense<{{\[\[\[}}1.000000e+00]], {{\[\[}}4.000000e+00]]]> : tensor<2x1x1xf32>}>
// CHECK:         "torch.aten.convolution"(%x, %w, %bias,
// CHECK-NEXT:    return
func.func @convolution(%x: !torch.vtensor<[1,1,4],f32>) -> !torch.vtensor<[1,2,4],f32> {
  %w = "torch.vtensor.literal"() <{value = dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>}> : () -> !torch.vtensor<[2,1,1],f32>
  %mean = "torch.vtensor.literal"() <{value = dense<[0.5, 1.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %variance = "torch.vtensor.literal"() <{value = dense<[3.0, 0.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %scale = "torch.vtensor.literal"() <{value = dense<[2.0, 2.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %offset = "torch.vtensor.literal"() <{value = dense<[0.0, 3.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %none = "torch.constant.none"() : () -> !torch.none
  %false = "torch.constant.bool"() <{value = 0 : i1}> : () -> !torch.bool
  %zero = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
  %one = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
  %momentum = "torch.constant.float"() <{value = 0.1 : f64}> : () -> !torch.float
  %epsilon = "torch.constant.float"() <{value = 1.0 : f64}> : () -> !torch.float
  %ones = "torch.prim.ListConstruct"(%one) : (!torch.int) -> !torch.list<int>
  %zeros = "torch.prim.ListConstruct"(%zero) : (!torch.int) -> !torch.list<int>
  %conv = "torch.aten.convolution"(%x, %w, %none, %ones, %zeros, %ones, %false, %zeros, %one) : (!torch.vtensor<[1,1,4],f32>, !torch.vtensor<[2,1,1],f32>, !torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int) -> !torch.vtensor<[1,2,4],f32>
  %bn = "torch.aten.batch_norm"(%conv, %scale, %offset, %mean, %variance, %false, %momentum, %epsilon, %false) : (!torch.vtensor<[1,2,4],f32>, !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>, !torch.bool, !torch.float, !torch.float, !torch.bool) -> !torch.vtensor<[1,2,4],f32>
  return %bn : !torch.vtensor<[1,2,4],f32>
}

// A matrix product has no operand for it: a sum is written. The second operand of a difference is multiplied by 2.
// CHECK-LABEL: @product
// CHECK:         %[[FC:.*]] = "torch.aten.mm"
// CHECK:         "torch.aten.add.Tensor"(%[[FC]], %
// CHECK:         "torch.aten.sub.Tensor"
func.func @product(%x: !torch.vtensor<[3,2],f32>) -> !torch.vtensor<[3,2],f32> {
  %w = "torch.vtensor.literal"() <{value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>}> : () -> !torch.vtensor<[2,2],f32>
  %row = "torch.vtensor.literal"() <{value = dense<[0.5, 1.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %one = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
  %two = "torch.constant.int"() <{value = 2 : i64}> : () -> !torch.int
  %fc = "torch.aten.mm"(%x, %w) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2,2],f32>) -> !torch.vtensor<[3,2],f32>
  %times = "torch.aten.mul.Tensor"(%fc, %row) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>) -> !torch.vtensor<[3,2],f32>
  %sum = "torch.aten.add.Tensor"(%times, %row, %one) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>, !torch.int) -> !torch.vtensor<[3,2],f32>
  %rest = "torch.aten.sub.Tensor"(%sum, %row, %two) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>, !torch.int) -> !torch.vtensor<[3,2],f32>
  return %rest : !torch.vtensor<[3,2],f32>
}

// The bias of a sum of a vector and a product is merged; scaled sums stay.
// CHECK-LABEL: @sum_and_product
// CHECK-DAG:     %[[B:.*]] = "torch.vtensor.literal"() <{value = dense<[7.500000e-01, 3.000000e+00]> : tensor<2xf32>}>
// CHECK-DAG:     %[[W:.*]] = "torch.vtensor.literal"() <{value = dense<{{\[\[}}5.000000e-01, 2.000000e+00], [1.500000e+00, 4.000000e+00]]> : tensor<2x2xf32>}>
// CHECK:         %[[FC:.*]] = "torch.aten.addmm"(%[[B]], %x, %[[W]], %one, %one)
// CHECK-NEXT:    %[[SCALED:.*]] = "torch.aten.addmm"(%row, %[[FC]], %w, %one, %two)
// CHECK-NEXT:    "torch.aten.mul.Tensor"(%[[SCALED]], %row)
func.func @sum_and_product(%x: !torch.vtensor<[3,2],f32>) -> !torch.vtensor<[3,2],f32> {
  %w = "torch.vtensor.literal"() <{value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>}> : () -> !torch.vtensor<[2,2],f32>
  %row = "torch.vtensor.literal"() <{value = dense<[0.5, 1.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %bias = "torch.vtensor.literal"() <{value = dense<[0.5, 2.0]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %one = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
  %two = "torch.constant.int"() <{value = 2 : i64}> : () -> !torch.int
  %fc = "torch.aten.addmm"(%bias, %x, %w, %one, %one) : (!torch.vtensor<[2],f32>, !torch.vtensor<[3,2],f32>, !torch.vtensor<[2,2],f32>, !torch.int, !torch.int) -> !torch.vtensor<[3,2],f32>
  %times = "torch.aten.mul.Tensor"(%fc, %row) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>) -> !torch.vtensor<[3,2],f32>
  %sum = "torch.aten.add.Tensor"(%times, %row, %one) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>, !torch.int) -> !torch.vtensor<[3,2],f32>
  %scaled = "torch.aten.addmm"(%row, %sum, %w, %one, %two) : (!torch.vtensor<[2],f32>, !torch.vtensor<[3,2],f32>, !torch.vtensor<[2,2],f32>, !torch.int, !torch.int) -> !torch.vtensor<[3,2],f32>
  %rest = "torch.aten.mul.Tensor"(%scaled, %row) : (!torch.vtensor<[3,2],f32>, !torch.vtensor<[2],f32>) -> !torch.vtensor<[3,2],f32>
  return %rest : !torch.vtensor<[3,2],f32>
}
