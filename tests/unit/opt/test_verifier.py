"""Equal ops are verified once, and different ops separately."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from typing_extensions import override
from xdsl.dialects import test
from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i1, i8
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from qdialect.dialects.quant import (
    ConstantOp,
    DequantizeCastOp,
    Storage,
    TransposeOp,
    UniformQuantizedType,
)
from qdialect.ir.errors import VerifiedByAttributes
from qdialect.ir.value_types import with_element_type
from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.opt.registry import ToolContext
from qdialect.opt.verifier import ModuleVerifier
from qdialect.text.parser import LocatingParser

ROWS, COLUMNS = (f"!quant.uniform<i8:f32:{axis}, {{0.5,0.25:3}}>" for axis in (0, 1))
FOUR_BITS = "tensor<2x!quant.uniform<i8<-8:7>:f32, 0.5>>"
VALUES = f"""
%f, %g = "test.op"() : () -> (f32, f64)
%i = "test.op"() : () -> i32
%w = "test.op"() : () -> tensor<2x3x{ROWS}>
%v = "test.op"() : () -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
"""
SQUARE = "tensor<2x2x!quant.uniform<i8:f32, 0.5>>"

# A valid op, and one that differs from it in one thing and is wrong.
PAIRS = {
    "type of an operand": (
        '"arith.addf"(%f, %f) : (f32, f32) -> f32',
        '"arith.addf"(%f, %i) : (f32, i32) -> f32',
    ),
    "type of the result": (
        '"arith.addf"(%f, %f) : (f32, f32) -> f32',
        '"arith.addf"(%f, %f) : (f32, f32) -> f64',
    ),
    "number of operands": (
        '"arith.addf"(%f, %f) : (f32, f32) -> f32',
        '"arith.addf"(%f, %f, %f) : (f32, f32, f32) -> f32',
    ),
    "operand for a result": (
        '"arith.negf"(%f) : (f32) -> f32',
        '"arith.negf"(%f, %f) : (f32, f32) -> ()',
    ),
    "number of results": (
        '"arith.negf"(%f) : (f32) -> f32',
        '%r, %s = "arith.negf"(%f) : (f32) -> (f32, f32)',
    ),
    "property": (
        '"arith.cmpf"(%f, %f) <{predicate = 1 : i64}> : (f32, f32) -> i1',
        '"arith.cmpf"(%f, %f) <{predicate = "oeq"}> : (f32, f32) -> i1',
    ),
    "name of a property": (
        '"arith.cmpf"(%f, %f) <{predicate = 1 : i64}> : (f32, f32) -> i1',
        '"arith.cmpf"(%f, %f) <{fastmath = 1 : i64}> : (f32, f32) -> i1',
    ),
    "region": (
        '"arith.negf"(%f) : (f32) -> f32',
        '"arith.negf"(%f) ({}) : (f32) -> f32',
    ),
    "permutation": (
        f'"quant.transpose"(%v) <{{permutation = array<i64: 1, 0>}}> : ({SQUARE}) -> {SQUARE}',
        f'"quant.transpose"(%v) <{{permutation = array<i64: 1, 1>}}> : ({SQUARE}) -> {SQUARE}',
    ),
    "name of the permutation": (
        f'"quant.transpose"(%v) <{{permutation = array<i64: 1, 0>}}> : ({SQUARE}) -> {SQUARE}',
        f'"quant.transpose"(%v) <{{order = array<i64: 1, 0>}}> : ({SQUARE}) -> {SQUARE}',
    ),
    "class": (
        f'"quant.reverse"(%v) <{{dims = array<i64: 1>}}> : ({SQUARE}) -> {SQUARE}',
        f'"quant.broadcast_in_dim"(%v) <{{dims = array<i64: 1>}}> : ({SQUARE}) -> {SQUARE}',
    ),
    "scales": (
        f"quant.transpose %w permutation = [1, 0] : tensor<2x3x{ROWS}> to tensor<3x2x{COLUMNS}>",
        f"quant.transpose %w permutation = [1, 0] : tensor<2x3x{ROWS}> to tensor<3x2x"
        "!quant.uniform<i8:f32:1, {0.5,0.125:3}>>",
    ),
    "cast": (
        f"quant.dcast %v : {SQUARE} to tensor<2x2xf32>",
        f"quant.dcast %v : {SQUARE} to tensor<2x2xf64>",
    ),
    "type of elements": (
        f'"quant.constant"() <{{value = dense<1> : tensor<2x2xi8>}}> : () -> {SQUARE}',
        f'"quant.constant"() <{{value = dense<1> : tensor<2x2xi16>}}> : () -> {SQUARE}',
    ),
    "elements": (
        f"quant.constant dense<[1, 7]> : {FOUR_BITS}",
        f"quant.constant dense<[1, 8]> : {FOUR_BITS}",
    ),
}


class Errors(DiagnosticHandler):
    """Keeps errors."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @override
    def emit(self, diagnostic: Diagnostic) -> None:
        self.messages.append(diagnostic.message)


def module_of(*ops: str) -> ModuleOp:
    return LocatingParser(ToolContext(), VALUES + "\n".join((*ops, ""))).parse_module()


def errors_in(module: ModuleOp) -> list[str]:
    errors = Errors()
    assert ModuleVerifier(lambda op: op.name, errors).verify(module) == (not errors.messages)
    return errors.messages


@pytest.mark.parametrize("difference", PAIRS)
def test_what_differs_is_verified(difference: str) -> None:
    valid, wrong = PAIRS[difference]
    assert errors_in(module_of(valid, valid)) == []
    alone = errors_in(module_of(wrong))
    assert len(alone) == 1
    assert errors_in(module_of(valid, valid, wrong)) == alone


def test_what_is_alike_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (transpose, _), (any_elements, _), (bounded, _) = map(
        PAIRS.__getitem__, ("scales", "type of elements", "elements")
    )
    module = module_of(*[transpose, any_elements, bounded] * 10)
    verified: list[str] = []

    def watch(cls: type[Operation]) -> None:
        verify = cls.verify_

        def verify_(self: Operation) -> None:
            verified.append(str(self.results[0].type))
            verify(self)

        monkeypatch.setattr(cls, "verify_", verify_)

    for cls in (TransposeOp, ConstantOp):
        watch(cls)
    assert errors_in(module) == []
    # What was read from the first two lines is not one object with what comes after.
    assert len(verified) <= 2 + 2 + 10
    assert len([type for type in verified if "<-8:7>" in type]) == 10


def test_layers_of_one_shape_are_verified_once_and_slots_elsewhere_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage, floats = Storage.of(i8), TensorType(f32, [2, 3])
    verified: list[Operation] = []
    verify = DequantizeCastOp.verify_

    def verify_(self: DequantizeCastOp) -> None:
        verified.append(self)
        verify(self)

    def cast_of(axis: int, *scales: float) -> tuple[Operation, Operation]:
        zeros = [0 for _ in scales]
        type = UniformQuantizedType.per_axis(storage, f32, axis, scales, zeros)
        made = test.TestOp(result_types=[with_element_type(floats, type)])
        return made, DequantizeCastOp(made, floats)

    monkeypatch.setattr(DequantizeCastOp, "verify_", verify_)
    layers = [cast_of(0, 0.5, 0.25 * number) for number in range(1, 6)]
    assert errors_in(ModuleOp([op for layer in layers for op in layer])) == []
    assert len(verified) == 1
    for wrong in (cast_of(1, 0.5, 0.25), cast_of(0, 0.5, 0.25, 0.125)):
        (error,) = errors_in(ModuleOp([*cast_of(0, 0.5, 0.25), *wrong]))
        assert "size does not match number of scales" in error


# Calls

CALLEE = "func.func private @g(i32) -> i32\n"
CALL = "%c = func.call @g(%i) : (i32) -> i32"


@pytest.mark.parametrize(
    ("call", "callee", "message"),
    [
        (CALL.replace("@g", "@h"), CALLEE, "'@h' could not be found in symbol table"),
        (CALL, '"test.op"() {sym_name = "g"} : () -> ()', "could not be found"),
        (CALL, "builtin.module @g {}", "'@g' does not reference a valid function"),
        (CALL, CALLEE.replace("(i32)", "(i64)"), "operand type mismatch"),
        (CALL, CALLEE.replace("(i32)", "()"), "incorrect number of operands"),
        (CALL, CALLEE.replace("> i32", "> i64"), "result type mismatch"),
        (CALL, CALLEE.replace("> i32", "> ()"), "incorrect number of results"),
    ],
)
def test_calls_are_verified(call: str, callee: str, message: str) -> None:
    body = f'builtin.module {{\n{callee}\n%i = "test.op"() : () -> i32\n{call}\n}}'
    module = LocatingParser(ToolContext(), body).parse_module()
    errors = errors_in(module)
    assert bool(errors) == bool(message)
    assert all(message in error for error in errors)


def test_symbols_of_calls_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*arguments: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(SymbolTable, "lookup_symbol", search)
    body = f'{CALLEE}%i = "test.op"() : () -> i32\n{CALL}\n'
    assert errors_in(LocatingParser(ToolContext(), body).parse_module()) == []


# Ops that override the walk of xDSL


class Overriding(IRDLOperation):
    """Its operand must have a name, which no constraint says."""

    value = operand_def()

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])

    @override
    def verify(self, verify_nested_ops: bool = True) -> None:
        super().verify(verify_nested_ops)
        if self.value.name_hint is None:
            raise VerifyException("the operand must have a name")


@irdl_op_definition
class WithParameter(Overriding):
    """As the ops of xDSL do."""

    name = "own.with_parameter"


@irdl_op_definition
class WithKeywords(Overriding):
    """As a plug-in may do."""

    name = "own.with_keywords"

    @override
    def verify(self, **arguments: bool) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().verify(**arguments)


@irdl_op_definition
class WithoutParameter(Overriding):
    """As a plug-in may do: xDSL itself calls `verify()`."""

    name = "own.without_parameter"

    @override
    def verify(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().verify()


@irdl_op_definition
class WithKey(Overriding, VerifiedByAttributes):
    """The cache key that it has is of `verify_` only."""

    name = "own.with_key"

    @override
    def verified_attributes(self) -> Sequence[Attribute]:
        return self.operand_types


@pytest.mark.parametrize("cls", [WithParameter, WithKeywords, WithoutParameter, WithKey])
def test_an_overridden_verify_is_called_for_each_op(cls: type[Overriding]) -> None:
    named, nameless = test.TestOp(result_types=[i1]), test.TestOp(result_types=[i1])
    named.results[0].name_hint = "a"
    right = [cls(named.results[0]) for _ in range(2)]
    assert errors_in(ModuleOp([named, *right])) == []
    wrong = cls(nameless.results[0])
    for op in (named, *right):
        op.detach()
    assert errors_in(ModuleOp([named, nameless, *right, wrong])) == ["the operand must have a name"]


def test_constraints_are_known_to_be_all_of_a_verifier() -> None:
    """Otherwise nothing is verified once only, and no other test sees that."""
    module = module_of(*['"arith.addf"(%f, %f) : (f32, f32) -> f32'] * 5)
    calls: list[Operation] = []
    verify = AddfOp.verify_
    with pytest.MonkeyPatch.context() as patch:

        def verify_(self: AddfOp) -> None:
            calls.append(self)
            verify(self)

        # What is known of the class is known then.
        assert errors_in(module) == []
        patch.setattr(AddfOp, "verify_", verify_)
        assert errors_in(module) == []
    assert len(calls) == 1


@irdl_op_definition
class ReadsTooFar(IRDLOperation):
    """Its verifier takes the attributes of an op for granted, as those of plug-ins may."""

    name = "own.reads_too_far"

    @override
    def verify_(self) -> None:
        assert self.attributes["missing"]


def test_a_verifier_that_crashes_is_an_error_of_its_op() -> None:
    assert errors_in(ModuleOp([ReadsTooFar()])) == [
        "'own.reads_too_far' op cannot be verified: its verifier fails on it"
    ]
