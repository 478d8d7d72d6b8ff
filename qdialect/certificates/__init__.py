"""
Proofs that a fold is right, by means that have nothing to do with how it folds.

`index_maps` says where each element of a result comes from, `readings` how an element is
read, `value_graph` follows elements from a value of the IR to the constants that hold them,
and `comparison` compares two values so, in pieces. See docs/certificates.md.
"""
