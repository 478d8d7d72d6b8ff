"""
Proofs that a fold is right, and that two modules mean the same.

The fold's own way of moving elements is not used. Bottom up:

- `index_maps`: where each element of a result comes from; `dequantize`: what it stands for.
- `value_nodes`, `value_graph`: values read as graphs of constants, casts, shape ops and symbols.
- `followed_elements`: elements followed through such a graph.
- `element_comparison`, `fold_certificates`, `certified_fold`: certificates of folds.
- `value_classes`, `attribute_keys`, `effects`, `function_terms`: functions read as terms.
- `function_comparison`, `sampled_runs`, `module_comparison`: what `qdialect-check` does.

See docs/certificates.md.
"""
