# Everything a developer runs. `make demo` and `make test` each need nothing but a Debian-like machine with
# Python 3.11 or newer, a C++ compiler and package registries; they set up the rest by themselves.

SHELL := bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := tools/install.sh
# PYTHON names another Python for the environment, as in: make test PYTHON=python3.12
# Options for pytest, as in: make test PYTEST="-x tests/engine"
PYTEST ?=
# Options for pip-compile, as in: make lock LOCK=--upgrade
LOCK ?=
CXX_FILES = $(shell find native -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
SCRIPTS = $(wildcard tools/*.sh tools/editors/*.sh .ci/run)
MODELS := qwen2.5-coder-0.5b qwen2.5-coder-1.5b smollm2-135m
VSCODE := editors/vscode

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

# --- the environment: a stamp for each step, so that a step is done again only when its lock file changes ---

# Looked at every time; the stamp changes only when the environment is made anew, for instance for another PYTHON.
$(VENV)/.created: always
	@tools/venv.sh $(VENV)

.PHONY: always
always:

$(VENV)/.runtime: requirements/runtime.lock $(VENV)/.created
	$(INSTALL) $<
	touch $@

$(VENV)/.build: requirements/build.lock $(VENV)/.runtime
	$(INSTALL) $<
	touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.build
	$(INSTALL) $<
	touch $@

# Editable: Python is read from this tree, so an edit needs no installation. The C++ part is `build`.
$(VENV)/.project: pyproject.toml $(VENV)/.build
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: venv
venv: $(VENV)/.project $(VENV)/.dev ## the environment in .venv, from the lock files

.PHONY: build
build: $(VENV)/.project ## the native module, into engine/ (incremental)
	tools/build.sh

.PHONY: models
models: build ## fetch and verify every model that the tests use
	$(BIN)/hearth models pull $(MODELS)

.PHONY: demo
demo: build ## complete the sample projects through the real server, on the default model
	$(BIN)/hearth models pull
	$(BIN)/hearth demo

# --- checks and tests ---

.PHONY: node
node: $(VENV)/.created
	@tools/node.sh >/dev/null

ifneq ($(wildcard $(VSCODE)/package-lock.json),)
# The stamp is the lock file that was installed: the tests compare it too.
$(VSCODE)/node_modules/.hearth-lock: $(VSCODE)/package-lock.json | node
	export PATH="$$(tools/node.sh):$$PATH"
	npm --prefix $(VSCODE) ci --no-audit --no-fund --loglevel=error
	cp $< $@
VSCODE_READY := $(VSCODE)/node_modules/.hearth-lock
endif

.PHONY: vscode
vscode: $(VSCODE_READY) ## the VS Code extension, as editors/vscode/hearth.vsix
	export PATH="$$(tools/node.sh):$$PATH"
	npm --prefix $(VSCODE) run --silent package >/dev/null
	echo "Built $(VSCODE)/hearth.vsix. Install it with: code --install-extension $(VSCODE)/hearth.vsix"

.PHONY: oracle
oracle: $(VENV)/.dev ## llama.cpp, to hold token ids, logits and speed against
	export PATH="$$(tools/node.sh):$$PATH"
	$(BIN)/python -m bench.peer

.PHONY: editors
editors: $(VENV)/.dev $(VSCODE_READY) ## the real editors that the tests drive
	export PATH="$$(tools/node.sh):$$PATH"
	export PYTHON=$(CURDIR)/$(BIN)/python
	for script in $(wildcard tools/editors/get-*.sh); do "$$script"; done

.PHONY: clients
clients: $(VENV)/.dev ## other programs that the tests run against the daemon
	@tools/aider.sh >/dev/null

.PHONY: lint
lint: venv $(VSCODE_READY) ## every check that is not a test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	for script in $(SCRIPTS); do bash -n "$$script"; done
ifdef VSCODE_READY
	export PATH="$$(tools/node.sh):$$PATH"
	npm --prefix $(VSCODE) run --if-present --silent typecheck
	npm --prefix $(VSCODE) run --if-present --silent lint
endif

.PHONY: fmt
fmt: venv ## put every file in its standard form
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/clang-format -i $(CXX_FILES)

.PHONY: test
test: lint build models oracle editors clients ## every check and every test
	export PATH="$$(tools/node.sh):$$PATH"
	export PYTHON=$(CURDIR)/$(BIN)/python
	export HEARTH_LLAMA_CPP="$$($(BIN)/python -m bench.peer)"
	export HEARTH_AIDER="$$(tools/aider.sh)"
	export HEARTH_REQUIRE_MODELS=1
	$(BIN)/python -m pytest $(PYTEST)

.PHONY: lock
lock: venv ## write requirements/*.lock anew from pyproject.toml and requirements/*.in
	tools/lock.sh $(LOCK)

.PHONY: clean
clean: ## remove what was built here; downloads and models stay
	rm -rf build $(VENV) $(VSCODE)/node_modules $(VSCODE)/dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find engine -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
