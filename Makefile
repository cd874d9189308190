# Everything that a fresh clone needs besides Python 3.11+, make and, the first time, a network.
# PYTHON=python3.12 chooses the interpreter, SEED=3 the demo's seed; data goes where ROLLOG_HOME says.

PYTHON ?= python3
SEED ?= 0

VENV := .venv
BIN := $(VENV)/bin
UV := .make/uv/bin/uv

# A stamp's name holds the checksum of what it was made from: times of files, which git does not keep, say nothing.
sum = $(shell cat $(1) | cksum | tr ' ' '-')
TOOLS_STAMP := .make/uv/made-$(call sum,requirements/build.txt)
VENV_STAMP := $(VENV)/made-$(call sum,requirements/all.txt requirements/build.txt pyproject.toml)
BROKER_STAMP := .make/broker-$(call sum,rollog/broker/jars.lock)

ROLES := core streams learner broker sandbox analysis domains
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# What tests say of the sources themselves: a part of `check`, so that `test` does not run it twice.
STRUCTURE := tests/test_imports.py tests/test_docs_links.py tests/test_sizes.py

# Byte code that is kept saves every process of a run its compilation.
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never

.PHONY: help setup demo test check bench chaos puzzles lock clean
.DEFAULT_GOAL := help

help:
	@echo 'make setup   environment and broker, ready for the targets below, which all do it themselves'
	@echo 'make demo    train a small policy from its first step to its last; SEED=$(SEED)'
	@echo 'make test    check, then all tests'
	@echo 'make check   lint, format, types, import direction, links in the docs'
	@echo 'make bench   how fast it is, as ratios, one JSON line each'
	@echo 'make chaos   the demo under kill -9, checked by the log, one JSON line per figure'
	@echo 'make puzzles more domains: the puzzles of reasoning-gym; takes a C compiler'
	@echo 'make lock    write requirements/ anew; UPGRADE=--upgrade takes newer versions'
	@echo 'make clean   delete the environment; data in ROLLOG_HOME stays'

setup: $(VENV_STAMP) $(BROKER_STAMP)

demo: setup
	$(BIN)/rollog demo --seed $(SEED)

test: check
	$(BIN)/python -m pytest $(STRUCTURE:%=--ignore %)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(STRUCTURE)

bench: setup
	$(BIN)/python -m bench

chaos: setup
	$(BIN)/rollog chaos

# Kept out of the environment by default: one of its dependencies is built from source, which takes a C compiler.
puzzles: setup
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements/puzzles.txt

$(TOOLS_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'rollog needs Python 3.11 or newer; $(PYTHON) is' "$$($(PYTHON) --version 2>&1)". >&2; \
	  echo 'Name another one: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }
	rm -rf .make/uv
	$(PYTHON) -m venv .make/uv
	.make/uv/bin/python -m pip install --quiet --require-hashes --requirement requirements/build.txt
	@touch $@

$(VENV_STAMP): | $(TOOLS_STAMP)
	@test -x $(BIN)/python || $(UV) venv --quiet --python .make/uv/bin/python $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/all.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --build-constraints requirements/build.txt --editable .
	@rm -f $(VENV)/made-*
	@touch $@

$(BROKER_STAMP): | $(VENV_STAMP)
	$(BIN)/python -m rollog.broker
	@rm -f .make/broker-*
	@touch $@

# The first file holds every version; the others take theirs from it.
lock: | $(TOOLS_STAMP)
	printf 'uv\nhatchling\neditables\n' | $(COMPILE) $(UPGRADE) --output-file requirements/build.txt -
	$(COMPILE) $(UPGRADE) $(patsubst %,--extra %,$(filter-out core,$(ROLES))) --group dev --output-file requirements/all.txt pyproject.toml
	for role in $(ROLES); do \
	  extra=$$(test $$role = core || echo --extra $$role); \
	  rm -f requirements/$$role.txt; \
	  $(COMPILE) --constraint requirements/all.txt $$extra --output-file requirements/$$role.txt pyproject.toml || exit 1; \
	done
	$(COMPILE) $(UPGRADE) --constraint requirements/all.txt --extra puzzles --output-file requirements/puzzles.txt pyproject.toml

clean:
	rm -rf $(VENV) .make .mypy_cache .pytest_cache .ruff_cache .hypothesis
