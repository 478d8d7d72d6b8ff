"""
Proofs that a fold is correct, and that two modules mean the same.

They share no code with the fold that moves elements. Bottom up:

- `index_maps`: the source of each element of a result; `dequantize`: the number it represents.
- `value_nodes`, `value_graph`: values read as graphs of constants, casts, shape ops and symbols.
- `followed_elements`: elements followed through such a graph.
- `element_comparison`, `fold_certificates`, `certified_fold`: certificates of folds.
- `value_classes`, `attribute_keys`, `effects`, `function_terms`: functions read as terms.
- `function_comparison`, `sampled_runs`, `module_comparison`: the engine of `qdialect-check`.

See docs/certificates.md.
"""
