// RUN: qdialect-opt %s --quantize-with-ranges=scheme=one-s16 | filecheck %s --check-prefix=S16
// RUN: echo '{"layers": [{"names": ["a", "b"], "dtype": "int16", "granularity": "channel"}]}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json | filecheck %s
// RUN: qdialect-opt %s "--quantize-with-ranges=config=%t.json input-types=i16 output-types=f32,i16" | filecheck %s --check-prefix=TYPED
// RUN: echo '{"layers": [{"name": "c", "dtype": "int16"}, {"name": "no", "dtype": "int16"}]}' > %t.json
// RUN: not qdialect-opt %s --quantize-with-ranges=config=%t.json 2>&1 | filecheck %s --check-prefix=NO-NAME
// RUN: echo '{"layers": [{"names": ["no"], "alternate": {"x": ["c"]}, "dtype": "int16"}]}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json | filecheck %s --check-prefix=ALTERNATE
// RUN: echo '{"parameters": {"c": {"scale": 0.5, "zero_point": 3}}, "copies": {"b": "c"}}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json | filecheck %s --check-prefix=GIVEN
// RUN: echo '{"layers": [' > %t.json
// RUN: not qdialect-opt %s --quantize-with-ranges=config=%t.json 2>&1 | filecheck %s --check-prefix=NO-JSON

// S16:           %x_1 = quant.qcast %x : {{.*}} to tensor<2x!quant.uniform<i16<-32767:32767>:f32, 3.0518509447574615E-5>>
// S16-NOT:       quant.requantize

// Where two precisions meet, there is one requantization: none between %a and %b, which have i16 both.
// CHECK:         %x_1 = quant.qcast %x : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
// CHECK-NEXT:    %x_2 = quant.dcast %x_1
// CHECK-NEXT:    %x_3 = quant.requantize %x_1 : {{.*}} to tensor<2x!quant.uniform<i16<-32767:32767>:f32, 3.0518509447574615E-5>>
// CHECK-NEXT:    %x_4 = quant.dcast %x_3
// CHECK-NEXT:    %a = tosa.abs %x_4
// CHECK-NEXT:    %a_1 = quant.qcast %a : {{.*}} to tensor<2x!quant.uniform<i16<-32767:32767>:f32, 3.0518509447574615E-5>>
// CHECK-NEXT:    %a_2 = quant.dcast %a_1
// CHECK-NEXT:    %b = tosa.exp %a_2
// CHECK-NEXT:    %b_1 = quant.qcast %b : {{.*}} to tensor<2x!quant.uniform<i16<-32767:32767>:f32, 9.1555528342723846E-5>>
// CHECK-NEXT:    %b_2 = quant.dcast %b_1
// CHECK-NEXT:    %b_3 = quant.requantize %b_1 : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.011764706112444401>>
// CHECK-NEXT:    %b_4 = quant.dcast %b_3
// CHECK-NEXT:    %c = tosa.add %b_4, %x_2
// CHECK-NEXT:    %c_1 = quant.qcast %c : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.015686275437474251>>
// CHECK-NEXT:    %c_2 = quant.dcast %c_1
// CHECK-NEXT:    func.return %b_2, %c_2

// The argument is i16, as %a reads it; %c reads u8.
// TYPED:         func.func @main(%x: tensor<2x!quant.uniform<i16<-32767:32767>:f32, 3.0518509447574615E-5>>) -> (tensor<2xf32>, tensor<2x!quant.uniform<i16<-32767:32767>:f32, {{.*}}>>)
// TYPED-NEXT:      %x_1 = quant.dcast %x
// TYPED-NEXT:      %x_2 = quant.requantize %x : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
// TYPED-NEXT:      %x_3 = quant.dcast %x_2
// TYPED-NEXT:      %a = tosa.abs %x_1
// TYPED:           %c = tosa.add %b_4, %x_3
// TYPED-NEXT:      %c_1 = quant.qcast %c
// TYPED:           %c_3 = quant.requantize %c_1
// TYPED-NEXT:      func.return %b_2, %c_3

// NO-NAME: error: {{.*}}.json:1:46: no value has the key 'no'
// NO-JSON: json:2:1: this is not JSON: Expecting value
// ALTERNATE: %c_1 = quant.qcast %c : {{.*}} to tensor<2x!quant.uniform<i16

// What is given for %c is copied, not what %c would have by its range.
// GIVEN: %b_1 = quant.qcast %b : {{.*}} to tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>
// GIVEN: %c_1 = quant.qcast %c : {{.*}} to tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %a = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %1 = quant.stats %a {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %b = tosa.exp %1 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %b {layerStats = dense<[1.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  %c = tosa.add %2, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = quant.stats %c {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>} : tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}
