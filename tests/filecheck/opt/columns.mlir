// Columns, which annotations do not tell, are mlir-opt's too.

// RUN: not qdialect-opt %s --split-input-file 2>&1 >/dev/null | filecheck %s
// RUN: %if mlir-opt-22 %{ not mlir-opt-22 %s --split-input-file 2>&1 >/dev/null | filecheck %s %}

// CHECK: columns.mlir:{{[0-9]+}}:40: error: unknown quantized type foobar
func.func private @unknown_type(!quant.foobar<i8>)

// -----

// CHECK: columns.mlir:{{[0-9]+}}:63: error: dialect 'quant' provides no attribute parsing hook
func.func private @attribute() attributes {attribute = #quant.foobar<i8>}

// -----

// CHECK: columns.mlir:{{[0-9]+}}:36: error: invalid memref element type
func.func private @memref(memref<4x!quant.any<i8>>)

// -----

// CHECK: columns.mlir:{{[0-9]+}}:27: error: failed to verify 'elementType'
func.func private @vector(vector<4x!quant.any<i8>>)

// -----

// CHECK: columns.mlir:{{[0-9]+}}:36: error: invalid element type for complex
func.func private @complex(complex<!quant.any<i8>>)

// -----

// Bytes are counted.
// CHECK: columns.mlir:{{[0-9]+}}:65: error: invalid dimension
func.func private @dimension() attributes {u = "é", v = tensor<9223372036854775808xi8>}

// -----

func.func @cast(%a: f32) {
  // CHECK: columns.mlir:{{[0-9]+}}:8: error: expressed type in quantized type
  %0 = quant.qcast %a : f32 to !quant.any<i8:f16>
  return
}

// -----

func.func @generic_cast(%a: f32) {
  // CHECK: columns.mlir:{{[0-9]+}}:8: error: expressed type in quantized type
  %0 = "quant.qcast"(%a) : (f32) -> !quant.any<i8:f16>
  return
}
