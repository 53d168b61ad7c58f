# Every target makes its own .venv and is enough on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

LOWEST := .venv-lowest

.PHONY: help setup demo serve test test-lowest lint bench bench-server docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[all,test,lint,docs]'
	touch $(STAMP)

setup: $(STAMP)  ## install everything into .venv

demo: setup  ## protect the bundled survey: figures, protected file, HTML report
	$(BIN)/shoal demo --output demo-output

serve: setup  ## a demo server on loopback with the bundled survey; prints one-time tokens
	$(BIN)/shoal serve --demo demo-server

test: setup  ## run the tests
	$(BIN)/python -m pytest -n 2 -q

test-lowest: setup  ## run the tests on the lowest versions that pyproject.toml declares, every extra, Python 3.11
	$(BIN)/pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python 3.11 $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct -e '.[all]'
	$(BIN)/uv pip install --quiet --python $(LOWEST) -e '.[test]'
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/kernels $(LOWEST)/bin/python -m pytest -n 2 -q -W default::DeprecationWarning

lint: setup  ## style, types, import directions
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## speed and quality figures (BENCH=full for the large sizes)
	$(BIN)/python -m benchmarks

bench-server: setup  ## load and faults of the server on loopback
	$(BIN)/python benchmarks/server.py

docs: setup  ## build the documentation
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

clean:  ## remove what was built
	rm -rf $(VENV) $(LOWEST) build dist docs/_build demo-output demo-server
