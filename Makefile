# Every target sets up what it needs. PYTHON names the interpreter for a fresh .venv (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
PYTEST := $(BIN)/python -m pytest
XDIST ?= -n 2 --dist worksteal

.PHONY: demo test test-quick test-long test-px4 lint services bench clean

demo: $(VENV)/installed
	@$(BIN)/lav2-hil sim --mission demo --speed 0

test: $(VENV)/installed-dev services lint
	$(PYTEST) $(XDIST) -m "not long and not px4 and not realtime"
	$(PYTEST) -m "realtime and not px4"
	$(PYTEST) tests/px4

test-quick: $(VENV)/installed-dev services lint
	$(PYTEST) $(XDIST) -m "not long and not slow and not px4 and not realtime"

test-long: $(VENV)/installed-dev services
	$(PYTEST) -m long --timeout=3600 -s

test-px4: $(VENV)/installed-dev
	$(PYTEST) tests/px4 -s

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

services:
	@tools/services.sh

bench: $(VENV)/installed-dev
	$(BIN)/python tools/bench.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install "pip>=25.1"
	@touch $@

# The demo installs no torch: without the CPU wheel at hand it would pull gigabytes.
$(VENV)/installed: $(VENV)/pip pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/installed-dev: $(VENV)/pip pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e . --group dev
	@touch $@ $(VENV)/installed
