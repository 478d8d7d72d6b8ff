"""
Proofs that a fold is correct, and that two modules mean the same; and runs of modules.

They share no code with the fold that moves elements. Bottom up:

- `index_maps`: the source of each element of a result; `value_nodes`: the number it represents.
- `value_graph`: values read as graphs of constants, casts, shape ops and symbols;
  `followed_elements`: elements followed through such a graph.
- `value_classes`: values compared element by element; `fold_certificates`: certificates of folds.
- `compared_modules`, `attribute_keys`, `function_terms`: functions read as terms.
- `interpreters`: modules run on arrays, by the models of their ops; `iree_runs`: run by IREE.
- `sampled_runs`, `iree_engine`, `comparison`: the engine of `qdialect-check`.

See docs/certificates.md.
"""
