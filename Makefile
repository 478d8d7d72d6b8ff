# Everything is run by the tools of the environment that is active.

# Of random examples; `make test SEED=...` repeats those of another run. In CI, the commit gives it.
SEED := $(or $(SEED),$(shell python -c "import random; print(random.randrange(1 << 32))"))

.PHONY: test unit filecheck lint site

test: unit filecheck

unit:
	python -m pytest --hypothesis-seed=$(SEED) $(PYTEST_FLAGS)

filecheck:
	lit -v tests/filecheck

lint:
	ruff check .
	ruff format --check .
	basedpyright

site:
	mkdocs build --strict
