// RUN: qdialect-opt %s --quantize-with-ranges --verify-quantization | filecheck %s --check-prefix=OWN
// RUN: qdialect-opt %s --quantize-with-ranges="scheme=torch-i8 tf-style-maxpool=false" --verify-quantization | filecheck %s --check-prefix=OWN
// RUN: qdialect-opt %s --quantize-with-ranges=tf-style-maxpool --verify-quantization | filecheck %s --check-prefix=SHARED
// RUN: qdialect-opt %s --quantize-with-ranges=tf-style-maxpool=true --verify-quantization | filecheck %s --check-prefix=SHARED
// RUN: qdialect-opt %s --quantize-with-ranges=scheme=glow-i8 --verify-quantization | filecheck %s --check-prefix=SHARED
// RUN: sed 's/-1.0, 4.0/-1.0, 0x7F800000/' %s > %t.mlir
// RUN: not qdialect-opt %t.mlir --quantize-with-ranges 2>&1 | filecheck %s --check-prefix=INFINITE
// RUN: qdialect-opt %t.mlir --quantize-with-ranges=scheme=glow-i8 -o /dev/null

// OWN: quant.qcast %x {{.*}} 0.039215687662363052
// OWN: quant.qcast %y {{.*}} 0.019607843831181526
// SHARED: quant.qcast %x {{.*}} 0.039215687662363052
// SHARED: quant.qcast %y {{.*}} 0.039215687662363052
// INFINITE: {{.*}}.mlir:18:8: error: 'quant.stats' op records an infinite range of 'y', -1 to inf: no scale represents it
func.func @f(%x: tensor<1x4x4x2xf32>) -> tensor<1x3x3x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-5.0, 5.0]> : tensor<2xf32>} : tensor<1x4x4x2xf32>
  %y = tosa.max_pool2d %0 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>) -> tensor<1x3x3x2xf32>
  %2 = quant.stats %y {layerStats = dense<[-1.0, 4.0]> : tensor<2xf32>} : tensor<1x3x3x2xf32>
  return %2 : tensor<1x3x3x2xf32>
}
