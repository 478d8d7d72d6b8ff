"""
Moving shape ops below casts: the engine of `sink-quant-shapes`.

`sinker` moves shape ops of one operand down; `joining` replaces casts of every operand of a
concat with one cast of its result. Both read an op as a `MovingOp`, and rebuild it on elements
of another type.
"""
