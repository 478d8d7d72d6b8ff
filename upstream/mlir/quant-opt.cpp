// A program like mlir-opt, with the quant dialect and what its tests need.

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Quant/IR/Quant.h"
#include "mlir/Dialect/Quant/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shape/IR/Shape.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

/// The dialect of the unknown ops in the tests.
struct TestDialect : Dialect {
  explicit TestDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<TestDialect>()) {
    allowUnknownOperations();
  }
  static constexpr StringLiteral getDialectNamespace() { return "test"; }
};

int main(int argc, char **argv) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                  quant::QuantDialect, scf::SCFDialect, shape::ShapeDialect,
                  tensor::TensorDialect, TestDialect>();
  func::registerInlinerExtension(registry);
  registerTransformsPasses();
  quant::registerQuantPasses();
  return asMainReturnCode(MlirOptMain(argc, argv, "quant-opt", registry));
}
