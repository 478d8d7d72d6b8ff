// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s
// RUN: xdsl-opt %s -p lower-quant-ops | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops --print-op-generic | qdialect-opt | filecheck %s

!a = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
!s = !quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{0.5:1, 0.25}, {2.0, 1.0:3}}>

// CHECK: func.func @per_axis(%x: tensor<?x2xf32>) -> tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> {
// CHECK-NEXT:   %0 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:   %1 = arith.constant dense<[0, 3]> : tensor<2xi8>
// CHECK-NEXT:   %2 = arith.constant 0 : index
// CHECK-NEXT:   %3 = tensor.dim %x, %2 : tensor<?x2xf32>
// CHECK-NEXT:   %4 = tensor.empty(%3) : tensor<?x2xi8>
// CHECK-NEXT:   %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<?x2xf32>, tensor<2xf32>, tensor<2xi8>) outs(%4 : tensor<?x2xi8>) {
// CHECK-NEXT:   ^bb0(%6: f32, %7: f32, %8: i8, %9: i8):
// CHECK-NEXT:     %10 = arith.divf %6, %7 : f32
// CHECK-NEXT:     %11 = arith.sitofp %8 : i8 to f32
// CHECK-NEXT:     %12 = arith.addf %10, %11 : f32
// CHECK-NEXT:     %13 = arith.fptosi %12 : f32 to i8
// CHECK-NEXT:     linalg.yield %13 : i8
// CHECK-NEXT:   } -> tensor<?x2xi8>
// CHECK-NEXT:   %q = quant.scast %5 : tensor<?x2xi8> to tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:   func.return %q : tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
func.func @per_axis(%x: tensor<?x2xf32>) -> tensor<?x2x!a> {
  %q = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!a>
  return %q : tensor<?x2x!a>
}

// CHECK: func.func @per_axis_back(%q: tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>) -> tensor<?x2xf32> {
// CHECK-NEXT:   %0 = quant.scast %q : tensor<?x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> to tensor<?x2xi8>
// CHECK-NEXT:   %1 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:   %2 = arith.constant dense<[0, 3]> : tensor<2xi8>
// CHECK-NEXT:   %3 = arith.constant 0 : index
// CHECK-NEXT:   %4 = tensor.dim %0, %3 : tensor<?x2xi8>
// CHECK-NEXT:   %5 = tensor.empty(%4) : tensor<?x2xf32>
// CHECK-NEXT:   %x = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %1, %2 : tensor<?x2xi8>, tensor<2xf32>, tensor<2xi8>) outs(%5 : tensor<?x2xf32>) {
// CHECK-NEXT:   ^bb0(%6: i8, %7: f32, %8: i8, %9: f32):
// CHECK-NEXT:     %10 = arith.sitofp %6 : i8 to f32
// CHECK-NEXT:     %11 = arith.sitofp %8 : i8 to f32
// CHECK-NEXT:     %12 = arith.subf %10, %11 : f32
// CHECK-NEXT:     %13 = arith.mulf %12, %7 : f32
// CHECK-NEXT:     linalg.yield %13 : f32
// CHECK-NEXT:   } -> tensor<?x2xf32>
// CHECK-NEXT:   func.return %x : tensor<?x2xf32>
func.func @per_axis_back(%q: tensor<?x2x!a>) -> tensor<?x2xf32> {
  %x = quant.dcast %q : tensor<?x2x!a> to tensor<?x2xf32>
  return %x : tensor<?x2xf32>
}

// CHECK: func.func @sub_channel(%x: tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{[{][{]}}5.000000e-01:1, 2.500000e-01}, {2.000000e+00, 1.000000e+00:3}}>> {
// CHECK-NEXT:   %0 = arith.constant dense<[[5.000000e-01, 2.500000e-01], [2.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:   %1 = arith.constant dense<[[1, 0], [0, 3]]> : tensor<2x2xi8>
// CHECK-NEXT:   %2 = tensor.empty() : tensor<2x4xi8>
// CHECK-NEXT:   %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0, %1 : tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%2 : tensor<2x4xi8>) {
// CHECK-NEXT:   ^bb0(%4: f32, %5: f32, %6: i8, %7: i8):
// CHECK-NEXT:     %8 = arith.divf %4, %5 : f32
// CHECK-NEXT:     %9 = arith.uitofp %6 : i8 to f32
// CHECK-NEXT:     %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:     %11 = arith.fptoui %10 : f32 to i8
// CHECK-NEXT:     %12 = arith.constant 1 : i8
// CHECK-NEXT:     %13 = arith.constant -56 : i8
// CHECK-NEXT:     %14 = arith.maxui %11, %12 : i8
// CHECK-NEXT:     %15 = arith.minui %14, %13 : i8
// CHECK-NEXT:     linalg.yield %15 : i8
// CHECK-NEXT:   } -> tensor<2x4xi8>
// CHECK-NEXT:   %q = quant.scast %3 : tensor<2x4xi8> to tensor<2x4x!quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{[{][{]}}5.000000e-01:1, 2.500000e-01}, {2.000000e+00, 1.000000e+00:3}}>>
// CHECK-NEXT:   func.return %q : tensor<2x4x!quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{[{][{]}}5.000000e-01:1, 2.500000e-01}, {2.000000e+00, 1.000000e+00:3}}>>
func.func @sub_channel(%x: tensor<2x4xf32>) -> tensor<2x4x!s> {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!s>
  return %q : tensor<2x4x!s>
}

// CHECK: func.func @sub_channel_back(%q: tensor<2x4x!quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{[{][{]}}5.000000e-01:1, 2.500000e-01}, {2.000000e+00, 1.000000e+00:3}}>>) -> tensor<2x4xf32> {
// CHECK-NEXT:   %0 = quant.scast %q : tensor<2x4x!quant.uniform<u8<1:200>:f32:{1:2, 0:1}, {{[{][{]}}5.000000e-01:1, 2.500000e-01}, {2.000000e+00, 1.000000e+00:3}}>> to tensor<2x4xi8>
// CHECK-NEXT:   %1 = arith.constant dense<[[5.000000e-01, 2.500000e-01], [2.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:   %2 = arith.constant dense<[[1, 0], [0, 3]]> : tensor<2x2xi8>
// CHECK-NEXT:   %3 = tensor.empty() : tensor<2x4xf32>
// CHECK-NEXT:   %x = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %1, %2 : tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%3 : tensor<2x4xf32>) {
// CHECK-NEXT:   ^bb0(%4: i8, %5: f32, %6: i8, %7: f32):
// CHECK-NEXT:     %8 = arith.uitofp %4 : i8 to f32
// CHECK-NEXT:     %9 = arith.uitofp %6 : i8 to f32
// CHECK-NEXT:     %10 = arith.subf %8, %9 : f32
// CHECK-NEXT:     %11 = arith.mulf %10, %5 : f32
// CHECK-NEXT:     linalg.yield %11 : f32
// CHECK-NEXT:   } -> tensor<2x4xf32>
// CHECK-NEXT:   func.return %x : tensor<2x4xf32>
func.func @sub_channel_back(%q: tensor<2x4x!s>) -> tensor<2x4xf32> {
  %x = quant.dcast %q : tensor<2x4x!s> to tensor<2x4xf32>
  return %x : tensor<2x4xf32>
}
