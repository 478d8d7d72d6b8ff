// RUN: qdialect-opt %s --fold-quant-shapes --allow-unregistered-dialect -o %t.mlir
// RUN: qdialect-check %s %t.mlir --allow-unregistered-dialect | filecheck %s

// What only computes positions has no side effects, and may be gone.

// CHECK: function 'f': proven
func.func @f() -> !torch.vtensor<[2,2],si8> {
  %w = "torch.vtensor.literal"() <{value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xsi8>}> : () -> !torch.vtensor<[3,2],si8>
  %l = "torch.vtensor.literal"() <{value = dense<[true, false]> : tensor<2xi1>}> : () -> !torch.vtensor<[2],i1>
  %a = "torch.vtensor.literal"() <{value = dense<[2, 2]> : tensor<2xsi64>}> : () -> !torch.vtensor<[2],si64>
  %b = "torch.vtensor.literal"() <{value = dense<[1, 0]> : tensor<2xsi64>}> : () -> !torch.vtensor<[2],si64>
  %i = "torch.aten.where.self"(%l, %a, %b) : (!torch.vtensor<[2],i1>, !torch.vtensor<[2],si64>, !torch.vtensor<[2],si64>) -> !torch.vtensor<[2],si64>
  %z = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
  %g = "torch.aten.index_select"(%w, %z, %i) : (!torch.vtensor<[3,2],si8>, !torch.int, !torch.vtensor<[2],si64>) -> !torch.vtensor<[2,2],si8>
  return %g : !torch.vtensor<[2,2],si8>
}
