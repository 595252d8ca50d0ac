# Everything a developer or CI runs. `make help` lists it; a fresh machine needs Python >= 3.11 and make.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
INSTALLED := .venv/.installed
# dagster.yaml stands here; the paths in it are relative to this folder.
export DAGSTER_HOME := $(CURDIR)

# The newest Python that starts (a pyenv shim may exist and not start) and can make a venv. `make PYTHON=... sync` overrides.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)

CHECKS := check-format check-lint check-types check-imports check-dependencies check-definitions

.PHONY: help sync search dev test test-real check $(CHECKS) bench docs lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

sync: $(INSTALLED) ## fetch every source of sources.yaml, load, index and publish, once
	@$(BIN)/python -m assets sync

search: $(INSTALLED) ## search what is published: make search q="words"
	@$(BIN)/python -m assets search -- "$$q"

dev: $(INSTALLED) ## Dagster with its web page on http://127.0.0.1:3000 (no login: loopback only); stop with Ctrl-C
	@PYTHONWARNINGS=$(NO_DG_ADVICE) $(BIN)/dagster dev --host 127.0.0.1 --port 3000

test: $(INSTALLED) ## the tests, offline and in random order, with the coverage floor
	@$(BIN)/python -m pytest --cov

test-real: $(INSTALLED) ## the tests against real services and large real data (installs Debian packages where it may)
	@scripts/test_real.sh

check: $(CHECKS) ## every static check; one alone by its name, all despite failures with `make -k check`

check-format: $(INSTALLED) ## ruff format: the layout of the code
	@echo "== ruff format"
	@$(BIN)/ruff format --check .

check-lint: $(INSTALLED) ## ruff check: every rule, but for those in pyproject.toml
	@echo "== ruff check"
	@$(BIN)/ruff check .

check-types: $(INSTALLED) ## mypy, strict
	@echo "== mypy"
	@$(BIN)/mypy

check-imports: $(INSTALLED) ## import-linter: assets -> resources -> ingestion
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-cache --no-logo

check-dependencies: $(INSTALLED) ## deptry: what is imported is declared, what is declared is used
	@echo "== deptry"
	@$(BIN)/deptry .

check-definitions: $(INSTALLED) ## dagster: the code location and dagster.yaml load, without secrets
	@echo "== dagster definitions validate"
	@PYTHONWARNINGS=$(NO_DG_ADVICE) $(BIN)/dagster definitions validate --log-format rich

bench: $(INSTALLED) ## measure the figures of the README
	@$(BIN)/python -m bench.files
	@$(BIN)/python -m bench.overhead
	@$(BIN)/python -m bench.sync

docs: $(INSTALLED) ## write docs/reference/tables.md anew, from the comments of a fresh warehouse
	@$(BIN)/python -m scripts.tables > docs/reference/tables.md

lock: ## write requirements.lock from pyproject.toml (needs uv; keeps the versions that still fit)
	@uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" pyproject.toml --group dev -o requirements.lock

clean: ## remove the environment and the caches; data/ stays
	@rm -rf .venv .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `dagster` advises on every call to use `dg`, which is another package that we do not need.
NO_DG_ADVICE := 'ignore:Function'

# --no-deps: the lock is complete, and pip 23 stumbles over an extra of a hashed requirement when it resolves itself.
$(INSTALLED): requirements.lock
	@test -x $(BIN)/python || test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 with venv found; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "== making .venv with $(PYTHON)"; $(PYTHON) -m venv .venv; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@touch $@
