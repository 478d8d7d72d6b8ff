// RUN: qdialect-opt %s --quantize-with-ranges | filecheck %s --check-prefix=WHOLE
// RUN: qdialect-opt %s --assign-activations -o %t.1 && filecheck %s --check-prefix=ACTIVATIONS < %t.1
// RUN: qdialect-opt %t.1 --propagate-parameters-backward -o %t.2 && filecheck %s --check-prefix=BACKWARD < %t.2
// RUN: qdialect-opt %t.2 --assign-constant-inputs -o %t.3 && filecheck %s --check-prefix=CONSTANTS < %t.3
// RUN: qdialect-opt %t.3 --assign-fixed-values -o %t.4 && filecheck %s --check-prefix=FIXED < %t.4
// RUN: qdialect-opt %t.4 --propagate-parameters-forward -o %t.5 && filecheck %s --check-prefix=FORWARD < %t.5
// RUN: qdialect-opt %t.5 --remove-redundant-quantize --write-quantized -o %t.6
// RUN: qdialect-opt %s --quantize-with-ranges | diff %t.6 -

// WHOLE:            %s_1 = quant.qcast %s : {{.*}} to tensor<1x2x!quant.uniform<u8:f32, 3.906250e-03>>
// WHOLE:            %r_1 = quant.qcast %r : {{.*}} to tensor<1x2x!quant.uniform<u8:f32, 3.906250e-03>>

// Each value has its own range.
// ACTIVATIONS:      %x: tensor<1x2xf32> {quant.parameters = {type = !quant.uniform<u8:f32, 0.0078431377187371254:128>, rule = "own", range = [-1.000000e+00 : f64, 1.000000e+00 : f64]}}
// ACTIVATIONS:      %s = tosa.sigmoid %0 {quant.parameters = [{type = !quant.uniform<u8:f32, 0.0029411765281111002>, rule = "own"
// ACTIVATIONS:      %r = tosa.reverse %1 {axis = 1 : i32} : (
// ACTIVATIONS:      %a = tosa.add %r, %c {quant.parameters = [{type = !quant.uniform<u8:f32, 0.015686275437474251:128>, rule = "own"
// ACTIVATIONS-NOT:  quant.reads

// %a has the parameters of what it is joined to. %x is read by another op too: the concat alone reads
// it so.
// BACKWARD:         %x: tensor<1x2xf32> {quant.parameters = {type = !quant.uniform<u8:f32, 0.0078431377187371254:128>
// BACKWARD:         %a = tosa.add %r, %c {quant.parameters = [{type = !quant.uniform<u8:f32, 0.019607843831181526:153>, rule = "shared", range = [-3.000000e+00 : f64, 2.000000e+00 : f64], origin = "j"}]} : (
// BACKWARD:         %j = tosa.concat %2, %0 {{.*}}quant.reads = {{\[\[}}{type = !quant.uniform<u8:f32, 0.019607843831181526:153>, rule = "shared", {{.*}}}], [{type = !quant.uniform<u8:f32, 0.019607843831181526:153>, rule = "shared"

// CONSTANTS:        %a = tosa.add %r, %c {{.*}} quant.reads = {{\[\[}}], [{type = !quant.uniform<u8:f32, 0.011764706112444401:170>, rule = "given", range = [-2.000000e+00 : f64, 1.000000e+00 : f64]}]]}

// FIXED:            %s = tosa.sigmoid %0 {quant.parameters = [{type = !quant.uniform<u8:f32, 3.906250e-03>, rule = "fixed"
// FIXED:            %r = tosa.reverse %1 {axis = 1 : i32} : (

// FORWARD:          %r = tosa.reverse %1 {axis = 1 : i32, quant.parameters = [{type = !quant.uniform<u8:f32, 3.906250e-03>, rule = "moved", range = [2.500000e-01 : f64, 7.500000e-01 : f64], origin = "s"}]}
func.func @main(%x: tensor<1x2xf32>) -> tensor<2x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %s = tosa.sigmoid %0 : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %1 = quant.stats %s {layerStats = dense<[0.25, 0.75]> : tensor<2xf32>} : tensor<1x2xf32>
  %r = tosa.reverse %1 {axis = 1 : i32} : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %c = "tosa.const"() {values = dense<[[1.0, -2.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %a = tosa.add %r, %c : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = quant.stats %a {layerStats = dense<[-2.0, 2.0]> : tensor<2xf32>} : tensor<1x2xf32>
  %j = tosa.concat %2, %0 {axis = 0 : i32} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  %3 = quant.stats %j {layerStats = dense<[-3.0, 2.0]> : tensor<2xf32>} : tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
