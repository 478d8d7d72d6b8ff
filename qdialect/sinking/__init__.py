"""
Moving shape ops below casts: the engine of `sink-quant-shapes`.

`sinker` moves shape ops with one operand below casts; `joining` replaces casts of all operands
of a concat by one cast of its result. Both read an op as a `MovingOp`, and rebuild it for
elements of another type.
"""
