"""
Moving shape ops below casts and above arithmetic: `sink-quant-shapes` and `hoist-quant-shapes`.

`sinker` moves shape ops with one operand below casts, and replaces casts of all operands of a
concat by one cast of its result; `hoisting` moves them above arithmetic. Both read an op as a
`MovingOp`, and rebuild it for elements of another type.
"""
