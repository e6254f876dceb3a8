# Each target sets up what it needs in .venv, once; nothing is installed twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test wheel coverage lint docs format clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 10

demo: $(VENV)/.installed  ## the main job on bundled data, checked against enumeration: demo/report.html
	$(BIN)/python examples/demo.py --out demo

test: $(VENV)/.developer  ## run the tests on all cores
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

wheel:  ## build the wheel, install it into an empty environment and run the README's code there
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	build/wheel/env/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		"$$(echo build/wheel/*.whl)[plots]"
	cd build/wheel && env/bin/python $(CURDIR)/tests/readme_code.py $(CURDIR)/README.md

coverage: $(VENV)/.developer  ## the same, and which lines they reach
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov=fwshapley --cov-report=term-missing:skip-covered

lint: $(VENV)/.developer  ## check style, types and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.documented  ## build the site, without a warning: build/docs/index.html
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning docs build/docs

format: $(VENV)/.developer  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove everything the other targets made
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("fwshapley needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.developer: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.documented: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@
