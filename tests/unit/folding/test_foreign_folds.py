"""
Shape ops of all dialects, parsed from text and folded, equal numpy's results bit for bit.

`random_modules` makes the modules and the expected values.
"""

from __future__ import annotations

import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from random_modules import (
    PLAIN,
    Bits,
    Function,
    Layer,
    Node,
    coarsest_blocks,
    functions,
    module_text,
    spelled,
)
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.scf import IfOp
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.dialects.quant import UniformQuantizedType
from qdialect.folding.report import Outcome, PassReport
from qdialect.ops.interface import RefusalCode, name_of
from qdialect.opt.diagnostics import Diagnostic, DiagnosticHandler
from qdialect.opt.registry import ToolContext
from qdialect.opt.verifier import ModuleVerifier
from qdialect.passes.fold_quant_shapes import FoldQuantShapesPass
from qdialect.passes.verify_quant_shapes import quant_shape_errors
from qdialect.testing.tensors import expanded
from qdialect.text.parser import LocatingParser
from qdialect.text.printer import MLIRPrinter

pytestmark = pytest.mark.usefixtures("without_plugins", "all_is_large")


class Errors(DiagnosticHandler):
    """Keeps errors."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def emit(self, diagnostic: Diagnostic) -> None:
        self.messages.append(diagnostic.message)


@dataclass
class Tool:
    """A module that was read, as the tool does."""

    text: str

    def __post_init__(self) -> None:
        self.context = ToolContext(allow_unregistered=True)
        self.module = LocatingParser(self.context, self.text).parse_module()
        self.verify()

    def verify(self) -> None:
        errors = Errors()
        ModuleVerifier(lambda op: name_of(op), errors).verify(self.module)
        assert not errors.messages, errors.messages

    def fold(self) -> PassReport:
        FoldQuantShapesPass(max_repetition=1 << 28).apply(self.context, self.module)
        self.verify()
        (report,) = self.context.fold_reports
        return report

    def printed(self, *, generic: bool) -> str:
        stream = io.StringIO()
        printer = MLIRPrinter(stream=stream, print_generic_format=generic)
        printer.print_op(self.module)
        printer.print_metadata(self.context.loaded_dialects)
        return stream.getvalue() + "\n"

    def returned(self, fn: Function) -> tuple[SSAValue, ...]:
        """The values that a function returns; for a branch, those that its first region yields."""
        function = next(
            op
            for op in self.module.walk()
            if isinstance(op, FuncOp) and op.sym_name.data == fn.name
        )
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        values = list(last.arguments)
        if fn.is_in_branch:
            branch = values[-1].owner
            assert isinstance(branch, IfOp)
            (value,) = cast(Operation, branch.true_region.block.last_op).operands
            values[-1] = value
        return tuple(values)

    def named(self, fn: Function) -> dict[str, Operation]:
        """The ops of a function by the names of their results."""
        function = next(
            op
            for op in self.module.walk()
            if isinstance(op, FuncOp) and op.sym_name.data == fn.name
        )
        return {
            hint: op
            for op in function.walk()
            for result in op.results
            if (hint := result.name_hint) is not None
        }

    def stored(self, constant: Operation, width: int) -> Bits:
        """The bits of the elements of a constant."""
        held = {**constant.attributes, **constant.properties}
        attribute = held.get("value", held.get("values"))
        type = cast(TensorType[Attribute], constant.results[0].type)
        if isinstance(attribute, DenseResourceAttr):
            builtin = self.context.get_optional_dialect("builtin")
            interface = builtin and builtin.get_interface(OpAsmDialectInterface)
            assert interface is not None
            text = interface.lookup(attribute.resource_handle.data)
            assert text is not None
            data = bytes.fromhex(text[10:])
        else:
            assert isinstance(attribute, DenseIntOrFPElementsAttr)
            data = bytes(cast(Any, attribute).data.data)
        itemsize = 1 << max(0, (width + 7) // 8 - 1).bit_length()
        bits = np.frombuffer(data, dtype=f"<u{itemsize}").astype(np.uint64)
        assert len(bits) in (1, np.prod(type.get_shape(), dtype=int))
        bits = bits & np.uint64((1 << width) - 1)
        count = np.prod(type.get_shape(), dtype=int)
        assert len(bits) in (1, count)
        return np.resize(bits, count).reshape(type.get_shape())


def is_cast_by_stablehlo(fn: Function, node: Node) -> bool:
    """Whether types may be per-axis at most."""
    source = fn.constants[int(node.origins.flat[0])]
    return any(op.startswith("stablehlo.") for op in (source.op, *node.casts))


def can_be_spelled(fn: Function, node: Node) -> bool:
    """Whether there are types for the constant and its casts, but for the one that is declared."""
    if not is_cast_by_stablehlo(fn, node):
        return True
    for layer in node.layers[:-1]:
        if layer.scales is not None and layer.zero_points is not None:
            blocks = coarsest_blocks(layer.scales.astype(np.float32), layer.zero_points)
            if sum(block < n for block, n in zip(blocks, node.shape, strict=True)) > 1:
                return False
    return True


def is_shared(op: Operation) -> bool:
    """Whether something else, too, uses what the operands of an op are made of."""
    pending = [op]
    while pending:
        for operand in pending.pop().operands:
            if not operand.has_one_use():
                return True
            if isinstance(operand.owner, Operation):
                pending.append(operand.owner)
    return False


def is_part_in_order(node: Node, of: Node) -> bool:
    """Whether a node has some elements of another one, in the same order."""
    left = iter(of.places.reshape(-1).tolist())
    return all(place in left for place in node.places.reshape(-1).tolist())


def ops_of(node: Node) -> list[Node]:
    """A node and all that it is made of."""
    return list(dict.fromkeys([node, *(n for o in node.operands for n in ops_of(o))]))


@dataclass
class Comparison:
    """The ops left in a function, and the expected ones."""

    fn: Function
    before: Tool
    after: Tool

    def __post_init__(self) -> None:
        self.ops_before = self.before.named(self.fn)
        self.left: set[Node] = set()

    def check(self) -> None:
        values = self.after.returned(self.fn)
        assert len(values) == len(self.fn.results)
        for value, node in zip(values, self.fn.results, strict=True):
            self.check_value(value, node)

    def check_value(self, value: SSAValue, node: Node) -> None:
        """Whether a value is what it should be: a constant, or the op that was there."""
        owner = value.owner
        assert isinstance(owner, Operation)
        assert str(value.type) == str(self.ops_before[node.name].results[0].type)
        made = next((n for n in ops_of(node) if n.is_shape_op and n.name == value.name_hint), None)
        if made is None:
            assert node.is_constant is not False, f"{node.name} must not be folded"
            assert (
                not node.is_shape_op or can_be_spelled(self.fn, node) or (self.is_moved_back(node))
            ), f"{node.name} has no type"
            self.check_constant(value, node)
            return
        if made is not node:
            # Shape ops were dropped: nothing has moved since then.
            assert made.layer.element == node.layer.element
            assert np.array_equal(made.places, node.places)
        must_fold = made.is_constant and can_be_spelled(self.fn, made)
        must_fold = must_fold and not self.is_idle_copy(owner, made)
        assert not must_fold, f"{made.op} {made.name} is left"
        self.left.add(made)
        was = self.ops_before[made.name]
        assert name_of(owner) == made.op
        # Attributes of dialects that are not known are not equal in two contexts.
        for now, then in (owner.properties, was.properties), (owner.attributes, was.attributes):
            assert {k: str(a) for k, a in now.items()} == {k: str(a) for k, a in then.items()}
        for operand, operand_node in zip(owner.operands, made.operands, strict=False):
            self.check_value(operand, self.read_instead(made, operand_node, operand))

    def read_instead(self, reader: Node, node: Node, value: SSAValue) -> Node:
        """What a reshape of quant reads: the value before other reshapes, if these are joined."""
        is_reshape = reader.op == "quant.reshape"
        while is_reshape and node.is_shape_op and value.name_hint != node.name:
            before = node.operands[0]
            if not np.array_equal(before.places.reshape(-1), node.places.reshape(-1)):
                break
            node = before
        return node

    def is_idle_copy(self, op: Operation, node: Node) -> bool:
        """Whether a fold would write elements again that stay, to save nothing at run time."""
        if not is_shared(op):
            return False
        if node.places.size > 8 and any(
            is_part_in_order(node, n) for n in ops_of(node) if n is not node
        ):
            return True
        nodes = {n.name: n for result in self.fn.results for n in ops_of(result)}
        users = [use.operation for use in op.results[0].uses]
        return bool(users) and all(
            bool(user.results)
            and (found := nodes.get(user.results[0].name_hint or "")) is not None
            and found.is_constant
            and (not can_be_spelled(self.fn, found) or self.is_idle_copy(user, found))
            for user in users
        )

    def is_moved_back(self, node: Node) -> bool:
        """Whether the value is one that was there before."""
        return any(
            n.layer.element == node.layer.element and np.array_equal(n.places, node.places)
            for n in ops_of(node)
            if n is not node
        )

    def check_constant(self, value: SSAValue, node: Node) -> None:
        source = self.fn.constants[int(node.origins.flat[0])]
        made: list[SSAValue] = [value]
        for op in reversed(node.casts):
            owner = made[-1].owner
            assert isinstance(owner, Operation)
            assert name_of(owner) == op
            made += owner.operands
        constant = made[-1].owner
        assert isinstance(constant, Operation)
        assert name_of(constant) == source.op
        assert made[-1].name_hint == source.name
        assert constant.attributes["profile"] == StringAttr(source.name)
        assert constant.attributes.keys() == self.ops_before[source.name].attributes.keys()
        layers = list(zip(reversed(made), node.layers, strict=True))
        for number, (step, layer) in enumerate(layers):
            type = cast(TensorType[Attribute], step.type)
            assert type.get_shape() == node.shape
            self.check_type(type.element_type, layer, node, is_declared=number == len(layers) - 1)
        storage = next((layer.storage for layer in node.layers if layer.storage), None)
        width = PLAIN[node.layer.element] if storage is None else storage.width
        assert np.array_equal(self.after.stored(constant, width), node.bits)

    def check_type(self, type: Attribute, layer: Layer, node: Node, *, is_declared: bool) -> None:
        if layer.storage is None or layer.scales is None or layer.zero_points is None:
            assert str(type) == layer.element
            return
        assert isinstance(type, UniformQuantizedType)
        scales, zero_points = expanded(type.parameters_on(node.shape))
        assert np.array_equal(scales.view(np.uint32), np.float32(layer.scales).view(np.uint32))
        assert np.array_equal(zero_points, layer.zero_points)
        assert type.storage_text == layer.storage.text
        if not is_declared and layer.spelling is None and not self.is_moved_back(node):
            blocks = coarsest_blocks(layer.scales.astype(np.float32), layer.zero_points)
            per_axis = is_cast_by_stablehlo(self.fn, node)
            coarsest = spelled(
                layer.storage, layer.scales, layer.zero_points, blocks, per_axis=per_axis
            )
            assert type.scales.size == coarsest.scales.size


@examples(250)
@given(st.data())
def test_random_modules(data: st.DataObject):
    parts = [data.draw(functions(number)) for number in range(data.draw(st.integers(1, 2)))]
    text = module_text(parts)
    before, after = Tool(text), Tool(text)
    lying = [node for fn in parts for node in fn.nodes if node.is_lie]
    lies = [node.op for node in lying]
    errors = list(quant_shape_errors(before.module, before.context))
    assert sorted(name_of(op) for op, _ in errors) == sorted(lies)

    report = after.fold()
    left: list[Node] = []
    for fn in parts:
        comparison = Comparison(fn, before, after)
        comparison.check()
        left += comparison.left
    nodes = [node for fn in parts for node in fn.nodes if node.is_shape_op]
    told = Counter(r.op_name for r in report.records if r.operands is None)
    assert told == Counter(node.op for node in nodes)
    refused = [record for record in report.records if record.outcome is Outcome.REFUSED]
    # Shape ops of quant that stay may be joined, foreign ones are as they were.
    foreign = Counter(r.op_name for r in refused if not r.op_name.startswith("quant."))
    assert foreign == Counter(node.op for node in left if not node.op.startswith("quant."))
    stale = [r.op_name for r in refused if r.code is RefusalCode.STALE_TYPE]
    known = [n.op for n in lying if n.is_padding_stored and all(o.is_constant for o in n.operands)]
    assert sorted(stale) == sorted(known)
    for op in after.module.walk():
        is_used = any(result.first_use is not None for result in op.results)
        assert is_used or not op.results, f"{name_of(op)} is not used"
    # What is left is read again, from either form, as the same.
    # xDSL cannot read its own text of named linalg ops on quantized tensors.
    generic = any(n.op.startswith("linalg.") and n.is_quantized for n in nodes)
    generic = generic or data.draw(st.booleans())
    printed = after.printed(generic=generic)
    assert Tool(printed).printed(generic=generic) == printed


def accepted_by(tool: str, *arguments: str, text: str) -> None:
    """Whether a tool of MLIR reads and verifies a module."""
    done = subprocess.run([tool, *arguments], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def folded_text(data: st.DataObject, mixes: Sequence[tuple[str, ...]]) -> str:
    """Many functions with the types that upstream verifiers accept, folded, in generic form."""
    parts = [
        data.draw(functions(number, mixes, quantizes_as_upstream=True)) for number in range(20)
    ]
    tool = Tool(module_text(parts))
    tool.fold()
    return tool.printed(generic=True)


MLIR_MIXES = [("tensor",), ("linalg",), ("tensor", "linalg"), ("tosa",), ("tosa", "tensor")]


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="mlir-opt-22 is not on PATH")
@examples(12)
@given(st.data())
def test_mlir_accepts_what_is_left(data: st.DataObject):
    accepted_by("mlir-opt-22", text=folded_text(data, MLIR_MIXES))


@pytest.mark.skipif(shutil.which("iree-opt") is None, reason="iree-opt is not on PATH")
@examples(8)
@given(st.data())
def test_iree_accepts_what_is_left(data: st.DataObject):
    accepted_by("iree-opt", text=folded_text(data, [("stablehlo",)]))


def test_ops_of_other_dialects_that_move_nothing_are_left() -> None:
    """Nothing has verified them."""
    module = Tool(
        """
        %0 = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<0xi8>
        %1 = "stablehlo.transpose"() <{permutation = array<i64: 0>}> : () -> tensor<2xi8>
        %2, %3 = "stablehlo.reshape"() : () -> (tensor<2xi8>, tensor<2xi8>)
        "stablehlo.reshape"(%1) : (tensor<2xi8>) -> ()
        "stablehlo.uniform_dequantize"() : () -> ()
        "test.op"(%0, %1, %2, %3) : (tensor<0xi8>, tensor<2xi8>, tensor<2xi8>, tensor<2xi8>) -> ()
        """
    )
    before = str(module.module)
    report = module.fold()
    assert {record.code for record in report.records} == {RefusalCode.UNKNOWN_OP}
    assert len(report.records) == 4
    assert str(module.module) == before
