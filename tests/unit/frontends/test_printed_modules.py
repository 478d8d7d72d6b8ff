"""What all imported modules have in common, whatever system they are of."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from qdialect.frontends import read_printed


def test_names_become_identifiers_with_their_uses():
    text = """
        func.func @main(%x: f32) -> f32 {
          %0 = call @"my fn"(%x) : (f32) -> f32
          %1 = call @"my.fn"(%0) : (f32) -> f32
          %2 = "my.op"(%1) {all = [@"my.fn", {n = @"7 é"}], nested = @"my fn"::@x} : (f32) -> f32
          return %2 : f32
        }
        func.func private @my_fn(f32) -> f32
        func.func private @"my fn"(f32) -> f32
        func.func private @"my.fn"(f32) -> f32
        func.func private @"7 é"(f32) -> f32
        func.func private @"é"(f32) -> f32
    """
    module = read_printed(text.encode(), "named.mlir", None)
    module.verify()
    names = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
    assert names == ["main", "my_fn", "my_fn_1", "my_fn_2", "_7", "main_1"]
    printed = str(module)
    assert printed.index("@my_fn_1(") < printed.index("@my_fn_2(")
    assert "all = [@my_fn_2, {n = @_7}], nested = @my_fn_1::@x" in printed


def test_a_name_in_the_text_of_an_unknown_attribute_is_kept():
    text = """
        func.func private @"my fn"(f32) -> f32
        "my.op"() {of = #my.ref<@"my fn">} : () -> ()
    """
    assert '@"my fn"(' in str(read_printed(text.encode(), "named.mlir", None))
