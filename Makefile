# Everything is run by the tools of the environment that is active.

# Of random examples; `make test SEED=...` repeats those of another run. In CI, the commit gives it.
SEED := $(or $(SEED),$(shell python -c "import random; print(random.randrange(1 << 32))"))

.PHONY: test unit filecheck oldest lint site wheel

test: unit filecheck

unit:
	python -m pytest --hypothesis-seed=$(SEED) $(PYTEST_FLAGS)

filecheck:
	lit -v tests/filecheck

# With the oldest xDSL: only what touches xDSL's classes, which is texts, dialects, passes on them, and the
# tools that read and print. Values are tested with the others, and so are pages and whole models.
LEFT_OUT := ptq folding check integers lowering export algebra sinking weights checkpoints testing test_docs.py \
	test_site.py test_digits.py test_caches.py test_small_texts.py \
	ops/test_models_against_iree.py ops/test_layers_against_iree.py \
	$(patsubst %,opt/test_%.py,quantize calibrate evaluate iree_engine process many_ops)

oldest:
	$(MAKE) test PYTEST_FLAGS="$(LEFT_OUT:%=--ignore=tests/unit/%) \
		--deselect=tests/unit/test_sample_stack.py::test_its_models \
		-m 'not without_xdsl and not exporters'"

lint:
	ruff check .
	ruff format --check .
	basedpyright

site:
	mkdocs build --strict

# An sdist, and a wheel that is made of it, in the folder `dist`.
wheel:
	rm -rf dist
	python -m build
	.ci/check_wheel dist
