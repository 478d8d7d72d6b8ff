// RUN: echo '{"layers": [{"names": ["x", "a"], "dtype": "int16"}]}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json | filecheck %s
// RUN: echo '{"layers": [{"name": "[xa]", "dtype": "int16"}]}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json | filecheck %s

// An argument has a precision of its own: a layer of that precision reads it as it is, and others
// requantize it.
// CHECK:      %x_1 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i16<-32767:32767>:f32, [[X:.*]]>>
// CHECK-NEXT: %x_2 = quant.dcast %x_1 : tensor<2x!quant.uniform<i16<-32767:32767>:f32, [[X]]>> to tensor<2xf32>
// CHECK-NEXT: %x_3 = quant.requantize %x_1 : {{.*}} to tensor<2x!quant.uniform<u8:f32, {{.*}}>>
// CHECK-NEXT: %x_4 = quant.dcast %x_3
// CHECK-NEXT: %y_1 = quant.qcast %y : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, {{.*}}>>
// CHECK:      %y_3 = quant.requantize %y_1 : {{.*}} to tensor<2x!quant.uniform<i16<-32767:32767>:f32, {{.*}}>>
// CHECK-NEXT: %y_4 = quant.dcast %y_3
// CHECK-NEXT: %a = tosa.add %x_2, %y_4
// CHECK:      %b = tosa.sub %a_{{[0-9]}}, %x_4
// CHECK:      quant.qcast %b : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, {{.*}}>>
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %1 = quant.stats %y {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  %a = tosa.add %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %a {layerStats = dense<[-3.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  %b = tosa.sub %2, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = quant.stats %b {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<2xf32>
  return %3 : tensor<2xf32>
}
