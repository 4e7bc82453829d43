# The whole developer interface. Needs only Python 3.11 or newer; CI calls the same targets.

PYTHON ?= python3
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# A worker that has nothing left to do takes tests of another one.
PARALLEL := -n $(JOBS) --dist worksteal

# The oldest JAX that pyproject.toml allows, and the tests of what depends on its version.
OLDEST := .venv-oldest
OLDEST_JAX := $(shell sed -n 's/.*"jax>=\([0-9.]*\),.*/\1/p' pyproject.toml)
CORE_TESTS := $(addprefix tests/,_jax run variables values collectives context devices \
	strategy input data)

# Programs in soak/ that run for long and look for growth.
SOAKS := epochs checkpoint_kills random_programs

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest check bench soak clean

help: ## Shows this list.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(INSTALLED) ## Trains a small model on handwritten digits.
	$(BIN)/python examples/digits.py $(ARGS)

test: $(INSTALLED) ## Runs the tests, then the conformance cases.
	$(BIN)/pytest $(PARALLEL)
	$(BIN)/pytest $(PARALLEL) tests/conformance

test-slow: $(INSTALLED) ## Runs the tests that `make test` leaves out: several processes, kills.
	$(BIN)/pytest $(PARALLEL) -m slow
	$(BIN)/pytest $(PARALLEL) -m slow tests/conformance

test-oldest: $(OLDEST)/.installed ## Runs the core's tests with the oldest JAX.
	$(OLDEST)/bin/pytest -n $(JOBS) $(CORE_TESTS)

check: $(INSTALLED) ## Checks format, lint, types and layers, in seconds.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py

bench: $(INSTALLED) ## Runs the programs in benchmarks/, one after another.
	@missed=0; for program in compiled_step dispatch eager_run uneven_step nnx_step keras_step import_time; do \
		echo "==> $$program"; $(BIN)/python benchmarks/$$program.py $(ARGS) || missed=1; \
	done; exit $$missed

soak: $(INSTALLED) ## Runs the long programs in soak/: faults, kills, many epochs.
	@set -e; for program in $(SOAKS); do \
		echo "==> $$program"; $(BIN)/python soak/$$program.py $(ARGS); \
	done
	$(BIN)/python soak/faults/soak.py --write docs/reliability.md $(ARGS)

clean: ## Removes the environment, the caches and the builds.
	rm -rf $(VENV) $(OLDEST) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed again whenever pyproject.toml changes.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Mirrax needs Python 3.11 or newer. Received: $$($(PYTHON) --version 2>&1)." \
			"Name another one: make PYTHON=python3.12 ..." >&2; \
		exit 1; \
	}
	@echo "==> Creating $(VENV)"
	$(PYTHON) -m venv $(VENV)
	@echo "==> Installing Mirrax and its tools into $(VENV) (a few minutes, only this once)"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev,demo]'
	@touch $@
	@echo "==> Ready"

$(OLDEST)/.installed: pyproject.toml
	@echo "==> Creating $(OLDEST) with jax $(OLDEST_JAX)"
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --disable-pip-version-check \
		--editable '.[dev]' 'jax==$(OLDEST_JAX)' 'jaxlib==$(OLDEST_JAX)'
	@touch $@
