# Everything a newcomer needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint bench clean

help:
	@echo "make demo   classify the bundled images with every method and write demo/report.html"
	@echo "make test   lint, type-check and run all tests"
	@echo "make lint   ruff and mypy only"
	@echo "make bench  time the engine against the plain loop"

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

demo: $(READY)
	$(BIN)/tammes demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: $(READY)
	$(BIN)/tammes benchmark --out runs/speed.json --figure runs/speed.svg

clean:
	rm -rf demo runs build .pytest_cache .mypy_cache .ruff_cache .hypothesis
