// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops --print-op-generic | qdialect-opt | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!a = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

// CHECK: func.func @per_tensor(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// CHECK-NEXT:   %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:   %1 = shape.num_elements %0 : tensor<?xindex> -> index
// CHECK-NEXT:   %2 = tensor.from_elements %1 : tensor<1xindex>
// CHECK-NEXT:   %3 = tensor.reshape %x(%2) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>
// CHECK-NEXT:   %4 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %5 = arith.constant 3 : i8
// CHECK-NEXT:   %6 = arith.constant 0 : index
// CHECK-NEXT:   %7 = tensor.dim %3, %6 : tensor<?xf32>
// CHECK-NEXT:   %8 = tensor.splat %4[%7] : tensor<?xf32>
// CHECK-NEXT:   %9 = arith.divf %3, %8 : tensor<?xf32>
// CHECK-NEXT:   %10 = tensor.splat %5[%7] : tensor<?xi8>
// CHECK-NEXT:   %11 = arith.sitofp %10 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:   %12 = arith.addf %9, %11 : tensor<?xf32>
// CHECK-NEXT:   %13 = arith.fptosi %12 : tensor<?xf32> to tensor<?xi8>
// CHECK-NEXT:   %14 = tensor.reshape %13(%0) : (tensor<?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:   %q = quant.scast %14 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:   func.return %q : tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @per_tensor(%x: tensor<*xf32>) -> tensor<*x!q> {
  %q = quant.qcast %x : tensor<*xf32> to tensor<*x!q>
  return %q : tensor<*x!q>
}

// CHECK: func.func @per_tensor_back(%q: tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<*xf32> {
// CHECK-NEXT:   %0 = quant.scast %q : tensor<*x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<*xi8>
// CHECK-NEXT:   %1 = shape.shape_of %0 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:   %2 = shape.num_elements %1 : tensor<?xindex> -> index
// CHECK-NEXT:   %3 = tensor.from_elements %2 : tensor<1xindex>
// CHECK-NEXT:   %4 = tensor.reshape %0(%3) : (tensor<*xi8>, tensor<1xindex>) -> tensor<?xi8>
// CHECK-NEXT:   %5 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %6 = arith.constant 3 : i8
// CHECK-NEXT:   %7 = arith.constant 0 : index
// CHECK-NEXT:   %8 = tensor.dim %4, %7 : tensor<?xi8>
// CHECK-NEXT:   %9 = tensor.splat %5[%8] : tensor<?xf32>
// CHECK-NEXT:   %10 = arith.sitofp %4 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:   %11 = tensor.splat %6[%8] : tensor<?xi8>
// CHECK-NEXT:   %12 = arith.sitofp %11 : tensor<?xi8> to tensor<?xf32>
// CHECK-NEXT:   %13 = arith.subf %10, %12 : tensor<?xf32>
// CHECK-NEXT:   %14 = arith.mulf %13, %9 : tensor<?xf32>
// CHECK-NEXT:   %x = tensor.reshape %14(%1) : (tensor<?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:   func.return %x : tensor<*xf32>
func.func @per_tensor_back(%q: tensor<*x!q>) -> tensor<*xf32> {
  %x = quant.dcast %q : tensor<*x!q> to tensor<*xf32>
  return %x : tensor<*xf32>
}

// CHECK: func.func @per_axis(%x: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> {
// CHECK-NEXT:   %0 = shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>
// CHECK-NEXT:   %1 = arith.constant 1 : index
// CHECK-NEXT:   %2 = arith.constant 2 : index
// CHECK-NEXT:   %3, %4 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:   %5 = shape.num_elements %3 : tensor<?xindex> -> index
// CHECK-NEXT:   %6, %7 = "shape.split_at"(%0, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:   %8 = shape.num_elements %7 : tensor<?xindex> -> index
// CHECK-NEXT:   %9 = arith.constant 2 : index
// CHECK-NEXT:   %10 = tensor.from_elements %5, %9, %8 : tensor<3xindex>
// CHECK-NEXT:   %11 = tensor.reshape %x(%10) : (tensor<*xf32>, tensor<3xindex>) -> tensor<?x2x?xf32>
// CHECK-NEXT:   %12 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:   %13 = arith.constant dense<[0, 3]> : tensor<2xi8>
// CHECK-NEXT:   %14 = arith.constant 0 : index
// CHECK-NEXT:   %15 = tensor.dim %11, %14 : tensor<?x2x?xf32>
// CHECK-NEXT:   %16 = arith.constant 2 : index
// CHECK-NEXT:   %17 = tensor.dim %11, %16 : tensor<?x2x?xf32>
// CHECK-NEXT:   %18 = tensor.empty(%15, %17) : tensor<?x2x?xi8>
// CHECK-NEXT:   %19 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11, %12, %13 : tensor<?x2x?xf32>, tensor<2xf32>, tensor<2xi8>) outs(%18 : tensor<?x2x?xi8>) {
// CHECK-NEXT:   ^bb0(%20: f32, %21: f32, %22: i8, %23: i8):
// CHECK-NEXT:     %24 = arith.divf %20, %21 : f32
// CHECK-NEXT:     %25 = arith.sitofp %22 : i8 to f32
// CHECK-NEXT:     %26 = arith.addf %24, %25 : f32
// CHECK-NEXT:     %27 = arith.fptosi %26 : f32 to i8
// CHECK-NEXT:     linalg.yield %27 : i8
// CHECK-NEXT:   } -> tensor<?x2x?xi8>
// CHECK-NEXT:   %28 = tensor.reshape %19(%0) : (tensor<?x2x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// CHECK-NEXT:   %q = quant.scast %28 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:   func.return %q : tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
func.func @per_axis(%x: tensor<*xf32>) -> tensor<*x!a> {
  %q = quant.qcast %x : tensor<*xf32> to tensor<*x!a>
  return %q : tensor<*x!a>
}

// CHECK: func.func @per_axis_back(%q: tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>) -> tensor<*xf32> {
// CHECK-NEXT:   %0 = quant.scast %q : tensor<*x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> to tensor<*xi8>
// CHECK-NEXT:   %1 = shape.shape_of %0 : tensor<*xi8> -> tensor<?xindex>
// CHECK-NEXT:   %2 = arith.constant 1 : index
// CHECK-NEXT:   %3 = arith.constant 2 : index
// CHECK-NEXT:   %4, %5 = "shape.split_at"(%1, %2) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:   %6 = shape.num_elements %4 : tensor<?xindex> -> index
// CHECK-NEXT:   %7, %8 = "shape.split_at"(%1, %3) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// CHECK-NEXT:   %9 = shape.num_elements %8 : tensor<?xindex> -> index
// CHECK-NEXT:   %10 = arith.constant 2 : index
// CHECK-NEXT:   %11 = tensor.from_elements %6, %10, %9 : tensor<3xindex>
// CHECK-NEXT:   %12 = tensor.reshape %0(%11) : (tensor<*xi8>, tensor<3xindex>) -> tensor<?x2x?xi8>
// CHECK-NEXT:   %13 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:   %14 = arith.constant dense<[0, 3]> : tensor<2xi8>
// CHECK-NEXT:   %15 = arith.constant 0 : index
// CHECK-NEXT:   %16 = tensor.dim %12, %15 : tensor<?x2x?xi8>
// CHECK-NEXT:   %17 = arith.constant 2 : index
// CHECK-NEXT:   %18 = tensor.dim %12, %17 : tensor<?x2x?xi8>
// CHECK-NEXT:   %19 = tensor.empty(%16, %18) : tensor<?x2x?xf32>
// CHECK-NEXT:   %20 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12, %13, %14 : tensor<?x2x?xi8>, tensor<2xf32>, tensor<2xi8>) outs(%19 : tensor<?x2x?xf32>) {
// CHECK-NEXT:   ^bb0(%21: i8, %22: f32, %23: i8, %24: f32):
// CHECK-NEXT:     %25 = arith.sitofp %21 : i8 to f32
// CHECK-NEXT:     %26 = arith.sitofp %23 : i8 to f32
// CHECK-NEXT:     %27 = arith.subf %25, %26 : f32
// CHECK-NEXT:     %28 = arith.mulf %27, %22 : f32
// CHECK-NEXT:     linalg.yield %28 : f32
// CHECK-NEXT:   } -> tensor<?x2x?xf32>
// CHECK-NEXT:   %x = tensor.reshape %20(%1) : (tensor<?x2x?xf32>, tensor<?xindex>) -> tensor<*xf32>
// CHECK-NEXT:   func.return %x : tensor<*xf32>
func.func @per_axis_back(%q: tensor<*x!a>) -> tensor<*xf32> {
  %x = quant.dcast %q : tensor<*x!a> to tensor<*xf32>
  return %x : tensor<*xf32>
}
