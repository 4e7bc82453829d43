# The whole developer interface. Needs only Python 3.11 or newer; CI calls the same targets.

PYTHON ?= python3
JOBS ?= 2
ARGS ?=

# Without bytecode on disk, each process that a test starts compiles Mirrax again.
unexport PYTHONDONTWRITEBYTECODE

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

# The demo needs little, so it has an environment of its own.
DEMO := .venv-demo

# Programs in soak/ that run for long and look for growth.
SOAKS := epochs checkpoint_kills random_programs

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-oldest check docs dist check-dist bench bench-quick soak clean

help: ## Shows this list.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(DEMO)/.installed ## Trains a small model three ways, kills a worker, and writes a report.
	@$(DEMO)/bin/python demo/demo.py $(ARGS)

test: $(INSTALLED) ## Runs the tests, then the conformance cases; ARGS are options.
	$(BIN)/pytest $(PARALLEL) $(ARGS)
	$(BIN)/pytest $(PARALLEL) $(ARGS) tests/conformance

test-slow: $(INSTALLED) ## Runs the tests that `make test` leaves out: several processes, kills.
	$(BIN)/pytest $(PARALLEL) -m slow $(ARGS)
	$(BIN)/pytest $(PARALLEL) -m slow $(ARGS) tests/conformance

test-oldest: $(OLDEST)/.installed ## Runs the core's tests with the oldest JAX.
	$(OLDEST)/bin/pytest -n $(JOBS) $(CORE_TESTS)

check: $(INSTALLED) ## Checks format, lint, types and layers, in seconds.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py

docs: $(INSTALLED) ## Builds the documentation into build/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open build/site/index.html"

dist: $(INSTALLED) ## Builds the wheel and the source archive into dist/.
	rm -rf dist
	$(BIN)/python -m build --no-isolation

check-dist: dist ## Installs what `make dist` builds, with each extra; needs the network.
	$(BIN)/python tools/check_dist.py $(ARGS)

bench: $(INSTALLED) ## Compares with other libraries, in at most 20 minutes; draws plots.
	$(BIN)/python benchmarks/bench.py $(ARGS); failed=$$?; \
		$(BIN)/python benchmarks/scale.py || failed=1; \
		$(BIN)/python benchmarks/plots.py && $(BIN)/python benchmarks/page.py && exit $$failed

bench-quick: $(INSTALLED) ## The main table of `make bench`, in at most 3 minutes.
	$(BIN)/python benchmarks/bench.py --quick $(ARGS)

soak: $(INSTALLED) ## Runs the long programs in soak/: faults, kills, many epochs.
	@set -e; for program in $(SOAKS); do \
		echo "==> $$program"; $(BIN)/python soak/$$program.py; \
	done
	$(BIN)/python soak/restarts.py --write docs/reliability.md
	$(BIN)/python soak/faults/soak.py --write docs/reliability.md

clean: ## Removes the environment, the caches and the builds.
	rm -rf $(VENV) $(OLDEST) $(DEMO) .venv-bench-* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define REQUIRE_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Mirrax needs Python 3.11 or newer. Received: $$($(PYTHON) --version 2>&1)." \
		"Name another one: make PYTHON=python3.12 ..." >&2; \
	exit 1; \
}
endef

# Installed again whenever pyproject.toml changes.
$(INSTALLED): pyproject.toml
	$(REQUIRE_PYTHON)
	@echo "==> Creating $(VENV)"
	$(PYTHON) -m venv $(VENV)
	@echo "==> Installing Mirrax and its tools into $(VENV) (a few minutes, only this once)"
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev,demo]'
	@touch $@
	@echo "==> Ready"

$(DEMO)/.installed: pyproject.toml
	$(REQUIRE_PYTHON)
	@echo "==> Installing what the demo needs into $(DEMO) (800 MB, only this once)"
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(OLDEST)/.installed: pyproject.toml
	@echo "==> Creating $(OLDEST) with jax $(OLDEST_JAX)"
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --disable-pip-version-check \
		--editable '.[dev]' 'jax==$(OLDEST_JAX)' 'jaxlib==$(OLDEST_JAX)'
	@touch $@
