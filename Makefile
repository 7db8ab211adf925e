# Sluice: everything that can be run. `make` alone lists it.
SHELL := /bin/bash
VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready

## ONCE=1                   demo: end after a clean comparison
## RATE=500                 demo: changed rows a second
## SECONDS_OF_LOAD=60       demo: how long to measure under load
## CONF=conf                up: directory of canal.properties and */instance.properties
## LAKE=lake                up: path or URI of the lake
## DEFS=defs.yaml           up: a defs.yaml, or a folder of */defs.yaml; without it every destination goes to the lake
## ALL=1                    test: every test, slow ones in turn; without it those that fit fifteen minutes
## PYTEST_ARGS="-k ring -x" test: arguments of pytest
## BENCH=decode_rows        bench: one measurement
## SECONDS=60               fuzz: how long to run
## MINUTES=60               soak: how long to run
## SERVER=8.0.31            soak: 5.7.22, 8.0.31, 9 or mariadb
## SEED=1                   soak: of the first script
## SESSIONS=1               soak: what statements mean in sessions of every state, instead of DDL
## SOURCES=1                soak: a source that is reset, set back and restored, instead of DDL
## SNAPSHOTS=1              soak: snapshots under random DML, with kills, instead of DDL
## WEEK=1                   soak: what grows in a whole stack whose times are fast, instead of DDL
## FILTERS=1                soak: DDL while the filter of tables changes
ONCE            ?=
RATE            ?=
SECONDS_OF_LOAD ?=
CONF            ?= conf
LAKE            ?= lake
DEFS            ?=
ALL             ?=
PYTEST_ARGS     ?=
BENCH           ?=
SECONDS         ?= 60
MINUTES         ?= 60
SERVER          ?= 8.0.31
SEED            ?=

SIDE_BY_SIDE := -n 5 --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo up test lint style types format docs bench fuzz soak clean

help: ## list the targets and their variables
	@awk -F ':[^#]*## ' '/^[a-zA-Z0-9_.-]+:[^#]*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "Variables:"
	@sed -n 's/^## /  /p' $(MAKEFILE_LIST)

setup: $(READY) ## create the virtual environment and install the packages; every other target does this first

$(READY): pyproject.toml constraints.txt scripts/setup
	@scripts/setup $(VENV)

demo: $(READY) ## capture a shop on a real MySQL into Delta and compare both
	@$(BIN)/sluice demo $(if $(ONCE),--once) $(if $(RATE),--rate $(RATE)) \
		$(if $(SECONDS_OF_LOAD),--seconds $(SECONDS_OF_LOAD))

up: $(READY) ## start the service, Spark and Dagster on your own MySQL and lake
	@$(BIN)/sluice up --conf "$(CONF)" --lake "$(LAKE)" $(if $(DEFS),--defs "$(DEFS)")

test: export PYTHONDONTWRITEBYTECODE =  # hundreds of processes would compile the packages anew
test: style ## run the tests, on real servers, and the type checker beside them
	@types=$$(mktemp); $(MAKE) --no-print-directory types >"$$types" 2>&1 & checker=$$!; \
	$(if $(PYTEST_ARGS),$(BIN)/python -m pytest,scripts/test $(BIN)/python) $(if $(ALL),--all) \
		$(or $(PYTEST_ARGS),--in-turn $(SIDE_BY_SIDE)); tests=$$?; \
	wait $$checker || tests=1; cat "$$types"; rm "$$types"; exit $$tests

lint: style types ## check style and formatting (ruff), layering (import-linter) and types (mypy --strict)
	@echo "lint: clean"

style: $(READY) ## the first part of it: ruff and import-linter
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make format" >&2; exit 1; }
	@imports=$$($(BIN)/lint-imports --no-cache) || { echo "$$imports" >&2; exit 1; }

types: $(READY) ## the second part of it: mypy --strict
	@$(BIN)/mypy --no-error-summary $(if $(CI),--cache-dir=/dev/null)

format: $(READY) ## format the code
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

docs: $(READY) ## write the reference and build the documentation's site into build/site, strictly
	@$(BIN)/python -m scripts.reference
	@$(BIN)/python -m scripts.site

bench: $(READY) ## measure; one JSON object a line
	@$(BIN)/python -m tests.bench $(BENCH)

fuzz: $(READY) ## search for bytes that break the decoder, guided by coverage
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m pip install -q -c constraints.txt atheris
	@$(BIN)/python -W ignore -m tests.fuzz.scan_fuzzer -max_total_time=$(SECONDS)

soak: $(READY) ## run random DDL and DML against a real server, and compare the lake
	@$(BIN)/python -m tests.soak --server $(SERVER) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(FILTERS),--filters) $(if $(SNAPSHOTS),--snapshots) $(if $(SESSIONS),--sessions) $(if $(SOURCES),--sources) $(if $(WEEK),--week)

clean: ## remove what the demo and the tests left; downloads stay in .sluice/artifacts
	@rm -rf .sluice/demo .sluice/up .sluice/soak .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
