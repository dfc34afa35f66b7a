# `make demo` and `make test` are all a newcomer needs: each sets up what is missing first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard src/native/*)

.PHONY: demo test check docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, train real models, print tables, draw figures (about five minutes)"
	@echo "make test    set up, run all tests"
	@echo "make check   linter, formatter and type checker"
	@echo "make docs    build the documentation"
	@echo "make clean   remove what the others made"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The native kernels are compiled here; without a C++ compiler the installation goes on without them.
# Bytecode is made at once: where Python may not keep any, every worker of a study would do it anew.
$(VENV)/.demo: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[explore]'
	$(BIN)/python -m compileall -q src/kandle
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q src/kandle
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/kandle reproduce --scale quick --store kandle-out/store --out kandle-out

# One XLA thread a process: the tests themselves run side by side.
test: $(VENV)/.dev
	PJRT_NPROC=1 $(BIN)/python -m pytest -n auto --dist worksteal -q

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist docs/_build kandle-out .pytest_cache .ruff_cache
