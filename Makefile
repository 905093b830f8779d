# Everything is set up inside .venv by these targets; nothing else is touched. Needs python3 (3.10 or later) with venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
NODE ?= hgx-h100
FAULT ?= mlx5_3-x8
SHARED ?= ../shared

.PHONY: help setup demo docs test lint score soak clean

help:
	@echo "make demo   diagnose one of our nodes with a fault in it (NODE=, FAULT=: fixtures/nodes/NODE/edits.toml)"
	@echo "make docs   write what the documentation takes from the program"
	@echo "make test   the tests (ARGS='-k name' for some of them)"
	@echo "make lint   ruff and mypy"
	@echo "make score  what the real captures say, where $(SHARED)/score is there"
	@echo "make soak   all of it, and the properties over thousands of random nodes, a fleet of 10,000 (15 minutes)"

setup: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# A failed node is what the demo shows: its exit code 1 is no failure of the demo.
demo: $(READY)
	@rm -rf .venv/demo && mkdir .venv/demo
	@PYTHONPATH=tests $(BIN)/python -c "import nodes; nodes.apply('$(NODE)', nodes.edit('$(NODE)', '$(FAULT)'), nodes.Path('.venv/demo'))"
	$(BIN)/topocheck node --from .venv/demo/capture || test $$? -eq 1

docs: $(READY)
	$(BIN)/python docs/generate.py

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

score: $(READY)
	$(SHARED)/score --tool $(BIN)/topocheck --json .venv/score.json
	$(BIN)/python .ci/floor.py .venv/score.json

soak: lint test score
	TOPOCHECK_SOAK=1 $(BIN)/python -m pytest tests/test_properties.py tests/test_gate_faults.py tests/test_fleet_scale.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache *.egg-info
