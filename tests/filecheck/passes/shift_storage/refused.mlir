// RUN: qdialect-opt %s --allow-unregistered-dialect --shift-storage="from=u8 to=i8" --split-input-file --verify-diagnostics

!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<2x!q>) -> tensor<2xi8> {
  // expected-error @below {{'quant.scast' op cannot have its storage shifted: it computes with stored integers, outside of quantized types}}
  %0 = quant.scast %x : tensor<2x!q> to tensor<2xi8>
  return %0 : tensor<2xi8>
}

// -----

!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<2xi8>) -> tensor<2x!q> {
  // expected-error @below {{'quant.scast' op cannot have its storage shifted: it computes with stored integers, outside of quantized types}}
  %0 = quant.scast %x : tensor<2xi8> to tensor<2x!q>
  return %0 : tensor<2x!q>
}

// -----

// Not all of 0 to 255 are numbers of the type, so differences would be rounded otherwise.
!q = !quant.uniform<u8:f8E5M2, 0.5:3>
func.func @f(%x: tensor<2x!q>) -> tensor<2xf8E5M2> {
  // expected-error @below {{'quant.dcast' op cannot have its storage shifted: 'f8E5M2' cannot represent all integers of the storage}}
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf8E5M2>
  return %0 : tensor<2xf8E5M2>
}

// -----

!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<1x2x2x1x!q>, %w: tensor<1x1x1x1x!q>, %b: tensor<1x!quant.uniform<i32:f32, 0.25>>) -> tensor<1x2x2x1x!quant.uniform<i32:f32, 0.25>> {
  %z = "tosa.const"() <{values = dense<3> : tensor<1xui8>}> : () -> tensor<1xui8>
  // expected-error @below {{'tosa.conv2d' op cannot have its storage shifted: its integers of 8 bits may be storage values or zero points}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x2x2x1x!q>, tensor<1x1x1x1x!q>, tensor<1x!quant.uniform<i32:f32, 0.25>>, tensor<1xui8>, tensor<1xui8>) -> tensor<1x2x2x1x!quant.uniform<i32:f32, 0.25>>
  return %0 : tensor<1x2x2x1x!quant.uniform<i32:f32, 0.25>>
}

// -----

!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<2x!q>) -> tensor<2x!q> {
  // expected-error @below {{'test.rescale' op cannot have its storage shifted: its attribute 'input_zp' may be a zero point}}
  %0 = "test.rescale"(%x) {input_zp = 3 : i32} : (tensor<2x!q>) -> tensor<2x!q>
  return %0 : tensor<2x!q>
}
