"""
Moving shape ops below casts: what `sink-quant-shapes` does.

`sinker` takes shape ops of one operand down, `joining` casts out of what several are joined
by. Both read an op as a `MovingOp`, and make it again for elements of another type.
"""
