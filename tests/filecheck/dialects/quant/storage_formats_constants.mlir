// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

!table = !quant.uniform<!quant.quantile<ui4:f32, {-1.0,0.5,0.1}, <14:16>>:f32, 0.5>
// expected-error @+1 {{'quant.constant' op a table's range 14:16 is outside the integers of ui4}}
%0 = quant.constant dense<[14, 15]> : tensor<2x!table>

// -----

!table = !quant.uniform<!quant.quantile<ui4:f32, {-1.0,0.5,0.1}, <1:3>>:f32, 0.5>
// expected-error @+1 {{'quant.constant' op element [1] is 0, outside the storage range [1, 3]}}
%0 = quant.constant dense<[1, 0]> : tensor<2x!table>

// -----

!table = !quant.uniform<!quant.quantile<f4E2M1FN:f32, {-1.0,0.5,0.1}, <1:3>>:f32, 0.5>
// expected-error @+1 {{'quant.constant' op codes of f4E2M1FN in a table have no range, such as 1:3}}
%0 = quant.constant dense<[1.0, 0.0]> : tensor<2x!table>

// -----

!narrow = !quant.uniform<f8E4M3FN<-4:4>:f32, 0.5>
// expected-error @+1 {{'quant.constant' op element [1] is 5.0, outside the storage range [-4, 4]}}
%0 = quant.constant dense<[0x7F, 5.0]> : tensor<2x!narrow>

// -----

// expected-error @+1 {{element 448.5 is outside the numbers of f8E4M3FN}}
%0 = quant.constant dense<[1.0, 448.5]> : tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>

// -----

// expected-error @+1 {{'quant.constant' op value must be of type 'tensor<2xf8E4M3FN>', but is of type 'tensor<2xi8>'}}
%0 = "quant.constant"() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>

// -----

!table = !quant.uniform<!quant.quantile<ui1:f32, {-1.0,-0.0}>:f32, 0.5>
%0 = quant.constant dense<[0, 1]> : tensor<2x!table>
// expected-error @+1 {{'quant.pad' op cannot pad: !quant.quantile<ui1:f32> has no code of real zero: none of its numbers is the zero point 0}}
%1 = quant.pad %0 low = [1] high = [0] : tensor<2x!table> to tensor<3x!table>
