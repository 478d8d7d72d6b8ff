// REQUIRES: iree-opt
// RUN: qdialect-opt %s | filecheck %s
// RUN: iree-opt %s | filecheck %s
// RUN: qdialect-opt %s | iree-opt --mlir-print-op-generic > %t.ours
// RUN: iree-opt %s --mlir-print-op-generic | diff %t.ours -
// RUN: qdialect-opt %s -o %t.custom
// RUN: iree-opt %s --mlir-print-op-generic | qdialect-opt | iree-opt > %t.generic
// RUN: iree-opt %t.custom | diff %t.generic -

// Each form is printed as StableHLO prints it, and read with the same meaning, also from generic form.
// CHECK-LABEL: @ops
func.func @ops(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>, %arg2: tensor<i32>, %arg3: tensor<2xi32>, %arg4: tensor<3x3xf32>) {
  // CHECK-NEXT: %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
  %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
  // CHECK-NEXT: %1 = stablehlo.exponential %arg0 : tensor<2x3xf32>
  %1 = stablehlo.exponential %arg0 : tensor<2x3xf32>
  // CHECK-NEXT: %2 = stablehlo.tanh %arg0 {result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2x3xf32>
  %2 = stablehlo.tanh %arg0 {result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<2x3xf32>
  // CHECK-NEXT: %3 = stablehlo.convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xf16>
  %3 = stablehlo.convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xf16>
  // CHECK-NEXT: %4 = stablehlo.add %arg0, %arg0 {note = "kept"} : tensor<2x3xf32>
  %4 = stablehlo.add %arg0, %arg0 {note = "kept"} : tensor<2x3xf32>
  // CHECK-NEXT: %5 = stablehlo.is_finite %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %5 = stablehlo.is_finite %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %6 = stablehlo.bitcast_convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %6 = stablehlo.bitcast_convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi32>
  // CHECK-NEXT: %7 = stablehlo.broadcast %arg0, sizes = [4, 5] : (tensor<2x3xf32>) -> tensor<4x5x2x3xf32>
  %7 = stablehlo.broadcast %arg0, sizes = [4, 5] : (tensor<2x3xf32>) -> tensor<4x5x2x3xf32>
  // CHECK-NEXT: %8 = stablehlo.broadcast_in_dim %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %8 = stablehlo.broadcast_in_dim %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %9 = stablehlo.cholesky %arg4, lower = true : tensor<3x3xf32>
  %9 = stablehlo.cholesky %arg4, lower = true : tensor<3x3xf32>
  // CHECK-NEXT: %10 = stablehlo.cholesky %arg4 : tensor<3x3xf32>
  %10 = stablehlo.cholesky %arg4 : tensor<3x3xf32>
  // CHECK-NEXT: %11 = stablehlo.clamp %arg1, %arg0, %arg1 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %11 = stablehlo.clamp %arg1, %arg0, %arg1 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %12 = stablehlo.clamp %arg0, %arg0, %arg0 : tensor<2x3xf32>
  %12 = stablehlo.clamp %arg0, %arg0, %arg0 : tensor<2x3xf32>
  // CHECK-NEXT: %13 = stablehlo.compare LT, %arg0, %arg0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %13 = stablehlo.compare LT, %arg0, %arg0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %14 = stablehlo.compare GE, %arg0, %arg0, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %14 = stablehlo.compare GE, %arg0, %arg0, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: %15 = stablehlo.complex %arg0, %arg0 : tensor<2x3xcomplex<f32>>
  %15 = stablehlo.complex %arg0, %arg0 : tensor<2x3xcomplex<f32>>
  // CHECK-NEXT: %16 = stablehlo.real %15 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  %16 = stablehlo.real %15 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  // CHECK-NEXT: %17 = stablehlo.composite "my.op" %arg0 {composite_attributes = {n = 1 : i32}, decomposition = @decomposition} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %17 = stablehlo.composite "my.op" %arg0 {composite_attributes = {n = 1 : i32}, decomposition = @decomposition} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %18 = stablehlo.concatenate %arg0, %arg0, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %18 = stablehlo.concatenate %arg0, %arg0, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: %19 = stablehlo.create_token : !stablehlo.token
  %19 = stablehlo.create_token : !stablehlo.token
  // CHECK-NEXT: %20 = stablehlo.after_all %19, %19 : !stablehlo.token
  %20 = stablehlo.after_all %19, %19 : !stablehlo.token
  // CHECK-NEXT: %21 = stablehlo.partition_id : tensor<ui32>
  %21 = stablehlo.partition_id : tensor<ui32>
  // CHECK-NEXT: %22 = stablehlo.custom_call @target(%arg0) {backend_config = "", has_side_effect = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %22 = stablehlo.custom_call @target(%arg0) {backend_config = "", has_side_effect = true} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %23 = stablehlo.custom_call @"a target"(%arg0, %arg1) {api_version = 2 : i32} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %23 = stablehlo.custom_call @"a target"(%arg0, %arg1) {api_version = 2 : i32} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %24 = stablehlo.dot %arg0, %arg4 : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %24 = stablehlo.dot %arg0, %arg4 : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %25 = stablehlo.dot %arg0, %arg4, precision = [HIGH, HIGHEST] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %25 = stablehlo.dot %arg0, %arg4, precision = [HIGH, HIGHEST] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %26 = stablehlo.dot_general %7, %7, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<4x5x2x3xf32>, tensor<4x5x2x3xf32>) -> tensor<4x5x2x2xf32>
  %26 = stablehlo.dot_general %7, %7, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<4x5x2x3xf32>, tensor<4x5x2x3xf32>) -> tensor<4x5x2x2xf32>
  // CHECK-NEXT: %27 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %27 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %28 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg3, dims = [0, 1] : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %28 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg3, dims = [0, 1] : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %29 = stablehlo.dynamic_iota %arg3, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>
  %29 = stablehlo.dynamic_iota %arg3, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %30 = stablehlo.dynamic_pad %arg0, %arg1, %arg3, %arg3, %arg3 : (tensor<2x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  %30 = stablehlo.dynamic_pad %arg0, %arg1, %arg3, %arg3, %arg3 : (tensor<2x3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %31 = stablehlo.dynamic_reshape %arg0, %arg3 : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %31 = stablehlo.dynamic_reshape %arg0, %arg3 : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %32 = stablehlo.dynamic_slice %arg0, %arg2, %arg2, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  %32 = stablehlo.dynamic_slice %arg0, %arg2, %arg2, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  // CHECK-NEXT: %33 = stablehlo.dynamic_update_slice %arg0, %32, %arg2, %arg2 : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %33 = stablehlo.dynamic_update_slice %arg0, %32, %arg2, %arg2 : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %34 = stablehlo.einsum %arg0, %arg4, config = "ij,jk->ik" : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %34 = stablehlo.einsum %arg0, %arg4, config = "ij,jk->ik" : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %35 = stablehlo.unary_einsum %arg0, config = "ij->ji" : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %35 = stablehlo.unary_einsum %arg0, config = "ij->ji" : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %36 = stablehlo.fft %15, type = FFT, length = [3] : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
  %36 = stablehlo.fft %15, type = FFT, length = [3] : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
  // CHECK-NEXT: %37 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %37 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  // CHECK-NEXT: %38 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2x3xf32>, tensor<f32>>
  %38 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2x3xf32>, tensor<f32>>
  // CHECK-NEXT: %39 = stablehlo.get_tuple_element %38[0] : (tuple<tensor<2x3xf32>, tensor<f32>>) -> tensor<2x3xf32>
  %39 = stablehlo.get_tuple_element %38[0] : (tuple<tensor<2x3xf32>, tensor<f32>>) -> tensor<2x3xf32>
  // CHECK-NEXT: %40 = stablehlo.iota dim = 0 : tensor<4xi32>
  %40 = stablehlo.iota dim = 0 : tensor<4xi32>
  // CHECK-NEXT: %41 = stablehlo.optimization_barrier %arg0 : tensor<2x3xf32>
  %41 = stablehlo.optimization_barrier %arg0 : tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.optimization_barrier()
  stablehlo.optimization_barrier()
  // CHECK-NEXT: %42 = stablehlo.pad %arg0, %arg1, low = [0, 1], high = [2, -1], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x5xf32>
  %42 = stablehlo.pad %arg0, %arg1, low = [0, 1], high = [2, -1], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x5xf32>
  // CHECK-NEXT: %43 = stablehlo.real_dynamic_slice %arg0, %arg3, %arg3, %arg3 : (tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  %43 = stablehlo.real_dynamic_slice %arg0, %arg3, %arg3, %arg3 : (tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  // CHECK-NEXT: %44 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>
  %44 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>
  // CHECK-NEXT: %45 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6xf32>
  %45 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6xf32>
  // CHECK-NEXT: %46 = stablehlo.reverse %arg0, dims = [1] : tensor<2x3xf32>
  %46 = stablehlo.reverse %arg0, dims = [1] : tensor<2x3xf32>
  // CHECK-NEXT: %c = stablehlo.constant dense<3> : tensor<1xi64>
  %c = stablehlo.constant dense<3> : tensor<1xi64>
  // CHECK-NEXT: %47 = stablehlo.rng %arg1, %arg1, %c, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  %47 = stablehlo.rng %arg1, %arg1, %c, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  // CHECK-NEXT: %48 = stablehlo.select %5, %arg0, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>
  %48 = stablehlo.select %5, %arg0, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>
  // CHECK-NEXT: %49 = stablehlo.set_dimension_size %arg0, %arg2, dim = 0 : (tensor<2x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<2, ?>>
  %49 = stablehlo.set_dimension_size %arg0, %arg2, dim = 0 : (tensor<2x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<2, ?>>
  // CHECK-NEXT: %50 = stablehlo.slice %arg0 [0:2, 1:3:2] : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %50 = stablehlo.slice %arg0 [0:2, 1:3:2] : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK-NEXT: %51 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %51 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %52 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %52 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: %53 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1x5xf32>
  %53 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<1x1x1x5xf32>
  // CHECK-NEXT: %54 = stablehlo.convolution(%7, %53) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 2], pad = {{\[\[}}1, 1], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [2, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 5 : i64} : (tensor<4x5x2x3xf32>, tensor<1x1x1x5xf32>) -> tensor<4x4x1x5xf32>
  %54 = stablehlo.convolution(%7, %53) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 2], pad = [[1, 1], [0, -1]], lhs_dilate = [1, 1], rhs_dilate = [2, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 5 : i64} : (tensor<4x5x2x3xf32>, tensor<1x1x1x5xf32>) -> tensor<4x4x1x5xf32>
  // CHECK-NEXT: %55 = chlo.erf %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %55 = chlo.erf %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: %56 = chlo.zeta %arg0, %arg0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %56 = chlo.zeta %arg0, %arg0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK-NEXT: %57 = chlo.broadcast_add %arg0, %arg1 : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %57 = chlo.broadcast_add %arg0, %arg1 : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %58 = chlo.broadcast_compare %arg0, %arg1 {comparison_direction = #chlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  %58 = chlo.broadcast_compare %arg0, %arg1 {comparison_direction = #chlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi1>
  return
}

func.func private @decomposition(tensor<2x3xf32>) -> tensor<2x3xf32>

// The arguments of regions are named in the form.
// CHECK-LABEL: @regions
func.func @regions(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi32>, %arg2: tensor<f32>, %arg3: tensor<i32>) {
  // CHECK-NEXT: %{{.*}} = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3) across dimensions = [1] {note} : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  // CHECK-NEXT: reducer(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>) (%{{.*}}: tensor<i32>, %{{.*}}: tensor<i32>) {
  %0:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3) across dimensions = [1] {note} : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1, %d : tensor<f32>, tensor<i32>
  }
  // CHECK: stablehlo.while(%[[I:.*]] = %arg3, %[[X:.*]] = %arg2) : tensor<i32>, tensor<f32> attributes {note}
  // CHECK-NEXT: cond {
  // CHECK-NEXT: stablehlo.compare LT, %[[I]], %[[I]]
  // CHECK: do {
  // CHECK-NEXT: stablehlo.return %[[I]], %[[X]] : tensor<i32>, tensor<f32>
  %2:2 = stablehlo.while(%i = %arg3, %x = %arg2) : tensor<i32>, tensor<f32> attributes {note}
   cond {
    %3 = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    stablehlo.return %i, %x : tensor<i32>, tensor<f32>
  }
  return
}
