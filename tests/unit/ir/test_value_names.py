"""Names that end in a number are kept, wherever xDSL copies them."""

from __future__ import annotations

import copy
import io
import pickle
import re

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.cf import BranchOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region

from qdialect.ir.names import NumberedName, kept_name, stem_of
from qdialect.opt.registry import ToolContext
from qdialect.text import parse_module, write_module


@pytest.mark.parametrize(
    ("name", "stem", "is_numbered"),
    [
        ("h_1", "h", True),
        ("conv2d_10", "conv2d", True),
        ("h_1_2", "h_1", True),
        ("h_1.2", "h_1", False),
        ("h", None, False),
        ("h1", None, False),
        ("h_", None, False),
        ("h_1x", None, False),
        ("layer.0", None, False),
    ],
)
def test_a_name_and_its_number(name: str, stem: str | None, is_numbered: bool):
    kept = kept_name(name)
    assert (kept, isinstance(kept, NumberedName)) == (name, is_numbered)
    assert stem_of(kept) == stem_of(name) == stem


@pytest.mark.parametrize("name", ["h_1", "h", "h_1_2", "h_1.2", "_0"])
def test_xdsl_keeps_the_name(name: str):
    op = test.TestOp(result_types=[i32, i32])
    op.results[0].name_hint = kept_name(name)
    copies = [op.clone(), op.clone()]
    copies[0].results[0].replace_all_uses_with(copies[0].results[1])
    copies[1].results[1].name_hint = copies[1].results[0].name_hint
    named = [op.results[0], copies[0].results[1], copies[1].results[1]]
    assert [value.name_hint for value in named] == [name] * 3
    block = Block()
    block.name_hint = kept_name(name)
    assert block.name_hint == name


def test_other_parts_of_a_name_are_those_of_a_string():
    name = kept_name("h_10")
    assert [name[0], name[-1], name[1:], name[:3], name[::-1]] == ["h", "0", "_10", "h_1", "01_h"]
    assert f"{name}" == "h_10"
    for other in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert (other, type(other)) == (name, NumberedName)


def test_printed_names_are_those_of_one_value_or_block_and_read_again():
    names = ["h", "h_1", "h", "h_1", "h", "h_1.1", "h_3", "h", "h_1"]
    blocks = [Block(arg_types=[i32]) for _ in names]
    for name, block, other in zip(names, blocks, [*blocks[1:], blocks[1]], strict=True):
        block.name_hint = block.args[0].name_hint = kept_name(name)
        block.add_op(BranchOp(other, block.args[0]))
    function = FuncOp("f", ([i32], []), Region(blocks))
    stream = io.StringIO()
    write_module(ToolContext(), ModuleOp([function]), stream)
    labels = re.findall(r"^  \^(\S+)\(%(\S+): i32\):", stream.getvalue(), re.MULTILINE)
    printed = ["h_1", "h_2", "h_1.2", "h_4", "h_1.1", "h_3", "h_5", "h_1.3"]
    assert labels == [(name, name) for name in printed]
    again = parse_module(ToolContext(), stream.getvalue())
    (function,) = again.ops
    hints = [block.name_hint for block in function.regions[0].blocks]
    assert hints[1:] == printed
