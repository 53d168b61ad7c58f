# Every target makes its own .venv and is enough on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
FULL := $(VENV)/.full
# The versions that development uses; `make setup CONSTRAINTS=` takes the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
PINNED := $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
# Python compiles a file when it is first imported; compiling them all is two fifths of an installation's CPU time.
INSTALL := $(BIN)/pip install --quiet --no-compile $(PINNED)
LOWEST := .venv-lowest
# One more than two cores have: tests of servers, clocks and Spark wait for a fifth of their time.
WORKERS ?= 3
EXTRAS ?= all
# What each part of the tests reaches is kept by itself, so that `make coverage PARTS=dp` measures one anew.
COVERED := build/coverage
PARTS ?= dp publish server microaggregation rest
REST := $(foreach part,dp publish server microaggregation,--ignore=tests/$(part))

.PHONY: help setup demo serve test test-lowest coverage lint docs bench bench-server wheel release-check constraints clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(CORE): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(CORE)

$(FULL): $(CORE)
	$(INSTALL) -e '.[all,test,lint,docs]'
	touch $(FULL)

setup: $(FULL)  ## install everything into .venv

demo: $(CORE)  ## protect the bundled survey: figures, protected file, HTML report (installs the core alone)
	$(BIN)/shoal demo --output demo-output

serve: $(FULL)  ## a demo server on loopback with the bundled survey; prints one-time tokens
	$(BIN)/shoal serve --demo demo-server

test: $(FULL)  ## run the tests
	$(BIN)/python -m pytest -n $(WORKERS) -q

test-lowest: $(FULL)  ## run the tests on the lowest versions that pyproject.toml declares, Python 3.11 (EXTRAS, TESTS: fewer)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python 3.11 $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct -e '.[$(EXTRAS)]'
	$(BIN)/uv pip install --quiet --python $(LOWEST) -e '.[test]'
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/kernels $(LOWEST)/bin/python -m pytest -n $(WORKERS) -q -W default::DeprecationWarning $(TESTS)

coverage: $(FULL)  ## lines and branches that the tests reach, kernels left out, one part of the tests after another (PARTS: fewer)
	mkdir -p $(COVERED)/all
	-for part in $(PARTS); do \
	  case $$part in rest) tests="src tests $(REST)";; *) tests=tests/$$part;; esac; \
	  COVERAGE_FILE=$(COVERED)/.coverage.$$part $(BIN)/python -m pytest -n $(WORKERS) -q --cov --cov-report= $$tests; \
	done
	COVERAGE_FILE=$(COVERED)/all/.coverage $(BIN)/coverage combine --keep $(COVERED)/.coverage.*
	COVERAGE_FILE=$(COVERED)/all/.coverage $(BIN)/coverage report --skip-covered --sort=miss

lint: $(FULL)  ## style, types, import directions
	$(BIN)/ruff check src tests benchmarks docs tools
	$(BIN)/ruff format --check src tests benchmarks docs tools
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(FULL)  ## build the documentation
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html

bench: $(FULL)  ## speed and quality figures (BENCH=full for the large sizes)
	$(BIN)/python -m benchmarks

bench-server: $(FULL)  ## load and faults of the server on loopback
	$(BIN)/python benchmarks/server.py

wheel: $(CORE)  ## build the wheel, install it alone in an empty environment, and run the demo there
	$(BIN)/python tools/wheel.py

release-check: $(FULL) wheel  ## everything a release needs: packages, metadata, versions, licences
	$(BIN)/python tools/release_check.py

constraints: $(FULL)  ## write down the versions that are installed now
	$(BIN)/pip freeze --exclude-editable --exclude shoal > constraints.txt

clean:  ## remove what was built
	rm -rf $(VENV) $(LOWEST) build dist docs/_build demo-output demo-server
