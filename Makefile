# `make demo` and `make test` are all a newcomer needs: each sets up what is missing first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard src/native/*)

.PHONY: demo test check docs results bench sanitize clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, train real models, compare them with the stored results, render everything (five minutes)"
	@echo "make test    set up, run all tests"
	@echo "make check   linters, formatters, type checker and the direction of imports"
	@echo "make sanitize   the kernels' tests under AddressSanitizer"
	@echo "make docs    build the documentation"
	@echo "make results add the finished runs of a store to results/ and rewrite docs/results.md (STORE=, COMMIT=, COMMAND=)"
	@echo "make bench   install other libraries and time training beside them (BENCH= options of benchmarks/peers.py)"
	@echo "make clean   remove what the others made"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The native kernels are compiled here; without a C++ compiler the installation goes on without them.
# Bytecode is made at once: where Python may not keep any, every worker of a study would repeat it.
$(VENV)/.demo: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[explore]'
	$(BIN)/python -m compileall -q src/kandle
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q src/kandle
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python tools/demo.py --out kandle-out

# One thread per process, in XLA, BLAS and PyTorch: the tests themselves run side by side, and idle threads spin.
test: $(VENV)/.dev
	PJRT_NPROC=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -q

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror src/native/*
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

# The kernels, built with AddressSanitizer for this machine alone, called with wrong arguments and then as intended.
# C++ exceptions inside jaxlib need the C++ library to be loaded together with the sanitizer.
sanitize: $(VENV)/.dev
	cmake -S . -B build/sanitize -DPython_EXECUTABLE=$(abspath $(BIN))/python -DKANDLE_SANITIZE=ON -DKANDLE_MARCH_NATIVE=ON
	cmake --build build/sanitize
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	KANDLE_KERNELS=$(abspath build/sanitize)/libkandle_kernels.so PJRT_NPROC=2 $(BIN)/python -m pytest -q -n 0 \
	tests/kernels/test_native_arguments.py tests/kernels/test_native_input.py tests/kernels/test_native_derivatives.py \
	tests/kernels/test_native_global.py tests/kernels/test_native_network.py tests/kernels/test_native_wide.py \
	tests/kernels/test_native_fit.py tests/kernels/test_native_fit_global.py tests/train/test_adam.py

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# Adds the finished runs of stores to results/: make results STORE='DIR ...' COMMIT=HASH COMMAND='...'
results: $(VENV)/.demo
	$(BIN)/python tools/pack_results.py results $(STORE) --out results --commit $(COMMIT) --command "$(COMMAND)"
	$(BIN)/python tools/results_page.py docs/results.md

# Compare times only on an otherwise idle machine: make bench BENCH='--peers jaxkan --cases functions-small'
BENCH ?= --peers --memory

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/peers.py $(BENCH)

clean:
	rm -rf $(VENV) build dist docs/_build kandle-out .pytest_cache .ruff_cache
