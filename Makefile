# Everything runs in a virtual environment, which the first command makes; pip installs into it again when pyproject.toml
# or constraints.txt changes. Another Python:       make test PYTHON=python3.13 VENV=.venv313
# An environment of your own:                       make test VENV=/path/to/it

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.aioaudio-installed

.PHONY: help demo test check bench soak
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

help:
	@echo "make demo    load the speech clips in tests/data, print a table, write demo.png"
	@echo "make test    everything that must pass: check, then the tests"
	@echo "make check   format, lint, types, import contracts"
	@echo "make bench   the benchmarks, side by side with other libraries"
	@echo "make soak    the tests with the full counts of the stress tests"

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

# As many processes as CPUs: each has threads and descriptors of its own to count.
test: check
	@$(BIN)/python -m pytest -n auto --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# A program is what has a main; the other modules there serve them.
bench: $(STAMP)
	@for program in $$(grep -l __main__ benchmarks/*.py); do $(BIN)/python $$program || exit 1; done

soak: $(STAMP)
	AIOAUDIO_SOAK=1 $(BIN)/python -m pytest --timeout=3600

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing aioaudio and its development tools into $(VENV) (the first time takes minutes) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "aioaudio needs Python 3.11 or later, and $(PYTHON) is not that: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
