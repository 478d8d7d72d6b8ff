# The interpreter whose environment holds the project: `make test PYTHON=python3.13`.
PYTHON ?= python

.PHONY: test unit filecheck lint

test: unit filecheck

unit:
	$(PYTHON) -m pytest

filecheck:
	$(PYTHON) -m lit.main -v tests/filecheck

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m basedpyright
