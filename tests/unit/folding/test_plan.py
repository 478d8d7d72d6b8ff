"""A plan is made without a change to the module."""

from __future__ import annotations

import io

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.core import IRWithUses, Use

from qdialect.folding.apply import fold_run
from qdialect.folding.moved_constant import MovedConstant
from qdialect.folding.plan import plan
from qdialect.folding.policy import FoldPolicy
from qdialect.ir.rewriting import values_in
from qdialect.opt.registry import ToolContext
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

MODULES = {
    "neighbours": """
      !q = !quant.uniform<i8:f32, 0.5>
      func.func @f(%x: tensor<1x!q>) -> tensor<4x!q> {
        %a = quant.constant dense<[1]> : tensor<1x!q>
        %b = quant.constant dense<[2, 3]> : tensor<2x!q>
        %r = quant.concat dim(0) %a, %b, %x
          : (tensor<1x!q>, tensor<2x!q>, tensor<1x!q>) -> tensor<4x!q>
        return %r : tensor<4x!q>
      }""",
    "neighbours in a list": """
      func.func @f(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[4],f32> {
        %a = "torch.vtensor.literal"() {value = dense<[1.0]> : tensor<1xf32>}
          : () -> !torch.vtensor<[1],f32>
        %b = "torch.vtensor.literal"() {value = dense<[2.0]> : tensor<1xf32>}
          : () -> !torch.vtensor<[1],f32>
        %0 = "torch.constant.int"() {value = 0 : i64} : () -> !torch.int
        %l = "torch.prim.ListConstruct"(%a, %b, %x)
          : (!torch.vtensor<[1],f32>, !torch.vtensor<[1],f32>, !torch.vtensor<[2],f32>)
          -> !torch.list<vtensor>
        %r = "torch.aten.cat"(%l, %0)
          : (!torch.list<vtensor>, !torch.int) -> !torch.vtensor<[4],f32>
        return %r : !torch.vtensor<[4],f32>
      }""",
    "arithmetic": """
      func.func @f() -> (tensor<3x2xf32>, tensor<2xf32>) {
        %c = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
        %s = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
        %e = tensor.empty() : tensor<2x3xf32>
        %b = linalg.broadcast ins(%s : tensor<2xf32>) outs(%e : tensor<2x3xf32>) dimensions = [1]
        %d = arith.sitofp %c : tensor<2x3xi8> to tensor<2x3xf32>
        %m = arith.mulf %d, %b : tensor<2x3xf32>
        %t = tosa.transpose %m {perms = array<i32: 1, 0>}
          : (tensor<2x3xf32>) -> tensor<3x2xf32>
        return %t, %s : tensor<3x2xf32>, tensor<2xf32>
      }""",
    "refused": """
      !q = !quant.uniform<i8:f32:0, {0.5, 0.25}>
      func.func @f(%x: tensor<2x!q>) -> (tensor<2x!q>, tensor<2x!q>) {
        %a = quant.constant dense<[1, 2]> : tensor<2x!q>
        %r = quant.reshape %x : tensor<2x!q> to tensor<2x!q>
        %s = quant.reshape %a : tensor<2x!q> to tensor<2x!q>
        return %r, %s : tensor<2x!q>, tensor<2x!q>
      }""",
}


def read(name: str) -> tuple[ModuleOp, ToolContext]:
    context = ToolContext(allow_unregistered=True)
    return LocatingParser(context, MODULES[name]).parse_module(), context


def state_of(module: ModuleOp) -> object:
    """The text of a module, its ops, and the users of each value."""
    stream = io.StringIO()
    MLIRPrinter(stream=stream, print_generic_format=True).print_op(module)
    users = [[(id(use.operation), use.index) for use in value.uses] for value in values_in(module)]
    return stream.getvalue(), [id(op) for op in module.walk()], users


class ChangedError(Exception):
    """A value of the module was given a user."""


@pytest.fixture(autouse=True)
def unchangeable(monkeypatch: pytest.MonkeyPatch) -> set[SSAValue]:
    """Values that must not be given users."""
    values, add_use = set[SSAValue](), IRWithUses.add_use

    def add(self: IRWithUses, use: Use) -> None:
        if self in values:
            raise ChangedError(self)
        add_use(self, use)

    monkeypatch.setattr(IRWithUses, "add_use", add)
    return values


@pytest.mark.parametrize("name", MODULES)
def test_a_plan_changes_nothing_even_for_a_moment(name: str, unchangeable: set[SSAValue]):
    module, context = read(name)
    unchanged = state_of(module)
    unchangeable.update(values_in(module))

    def may_fold(constant: MovedConstant) -> bool:
        assert state_of(module) == unchanged
        return True

    planned = plan(module, context, FoldPolicy(), may_fold)
    assert planned.constants or name == "refused"
    assert state_of(module) == unchanged
    with fold_run(module, context, FoldPolicy()) as run:
        assert run.plan == planned
    assert state_of(module) == unchanged


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("name", ["neighbours", "neighbours in a list"])
def test_a_plan_that_is_not_made_changes_nothing(
    name: str, calls: int, unchangeable: set[SSAValue]
):
    module, context = read(name)
    unchanged, constants = state_of(module), list[MovedConstant]()
    unchangeable.update(values_in(module))

    def may_fold(constant: MovedConstant) -> bool:
        constants.append(constant)
        if len(constants) == calls:
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        plan(module, context, FoldPolicy(), may_fold)
    assert state_of(module) == unchanged
