// REQUIRES: iree-opt
// RUN: qdialect-opt %s --allow-unregistered-dialect --lower-dequantization=to=linalg-ext | iree-opt | filecheck %s

// CHECK: iree_linalg_ext.dequantize_affine <indexing_maps = {{.*}}, quant_min = -128, quant_max = 127> ins({{.*}} : tensor<3x2xi8>, tensor<2xf32>, tensor<2xi64>)
// CHECK: iree_linalg_ext.dequantize_affine <indexing_maps = {{.*}}, quant_min = 0, quant_max = 255, input_unsigned> ins({{.*}} : tensor<3x2x2xi8>, tensor<2xf32>)
func.func @forms() -> (tensor<3x2xf32>, tensor<3x4xf32>) {
  %w = arith.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %0 = quant.scast %w : tensor<3x2xi8> to tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3,0.25:2}>>
  %c = quant.dcast %0 : tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3,0.25:2}>> to tensor<3x2xf32>
  %x = arith.constant dense<7> : tensor<3x4xi8>
  %1 = quant.scast %x : tensor<3x4xi8> to tensor<3x4x!quant.uniform<u8:f32:{1:2}, {{0.5, 0.25}}>>
  %b = quant.dcast %1 : tensor<3x4x!quant.uniform<u8:f32:{1:2}, {{0.5, 0.25}}>> to tensor<3x4xf32>
  return %c, %b : tensor<3x2xf32>, tensor<3x4xf32>
}

// CHECK: iree_linalg_ext.quantize_affine <indexing_maps = {{.*}}, quant_min = 1, quant_max = 255, storage_unsigned> ins({{.*}} : tensor<3x2xf32>, tensor<2xf32>, tensor<2xi64>) outs({{.*}} : tensor<3x2xi8>)
func.func @quantized(%x: tensor<3x2xf32>) -> tensor<3x2x!quant.uniform<u8<1:255>:f32:1, {0.5:3,0.25:200}>> {
  %q = quant.qcast %x : tensor<3x2xf32> to tensor<3x2x!quant.uniform<u8<1:255>:f32:1, {0.5:3,0.25:200}>>
  return %q : tensor<3x2x!quant.uniform<u8<1:255>:f32:1, {0.5:3,0.25:200}>>
}
