# Everything is run by the tools of the environment that is active.

.PHONY: test unit filecheck lint

test: unit filecheck

unit:
	python -m pytest

filecheck:
	lit -v tests/filecheck

lint:
	ruff check .
	ruff format --check .
	basedpyright
