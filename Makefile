# Sluice: what there is to run. `make` alone lists it.
SHELL       := /bin/bash
VENV        := .venv
BIN         := $(VENV)/bin
READY       := $(VENV)/.ready
ONCE        ?=
RATE        ?=
SECONDS_    := $(if $(SECONDS_OF_LOAD),--seconds $(SECONDS_OF_LOAD))
CONF        ?= conf
LAKE        ?= lake
DEFS        ?=
BENCH       ?=
SECONDS     ?= 60
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo up test lint format bench fuzz clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## the virtual environment and all packages (the other targets do it themselves)

$(READY): pyproject.toml constraints.txt scripts/setup
	@scripts/setup $(VENV)

demo: $(READY) ## the whole way on real servers; ONCE=1 ends after a clean verify; RATE=rows/s SECONDS_OF_LOAD=n
	@$(BIN)/sluice demo $(if $(ONCE),--once) $(if $(RATE),--rate $(RATE)) $(SECONDS_)

up: $(READY) ## the stack on your own MySQL: CONF=conf LAKE=/path/to/lake DEFS=defs.yaml
	@$(BIN)/sluice up --conf "$(CONF)" --lake "$(LAKE)" $(if $(DEFS),--defs "$(DEFS)")

test: lint ## every test, on real servers; PYTEST_ARGS="-k name -x"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(READY) ## ruff (style, formatting, layering) and mypy --strict
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make format" >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@echo "lint: clean"

format: $(READY) ## brings the code into its form
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

bench: $(READY) ## measurements, one JSON object a line; BENCH=name for one
	@$(BIN)/python -m tests.bench $(BENCH)

fuzz: $(READY) ## looks for bytes that break the decoder, led by coverage; SECONDS=60
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m pip install -q -c constraints.txt atheris
	@$(BIN)/python -W ignore -m tests.fuzz.scan_fuzzer -max_total_time=$(SECONDS)

clean: ## removes what the demo and the tests left; downloads stay (rm -r .sluice for all)
	@rm -rf .sluice/demo .sluice/up .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
