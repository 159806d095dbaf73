# The only recipes: people, hooks and CI use these. `make` prints them.
# Every recipe that needs the environment depends on $(READY), which scripts/setup writes; the second call costs nothing.
# ARGS passes options on: make test-unit ARGS="-k windows -x", make bench ARGS="--help".

SHELL    := /bin/bash
VENV     := .venv
READY    := $(VENV)/.ready
PY       := $(VENV)/bin/python
ARGS     ?=
# Tests without Spark share no file and no port, and many wait for processes that they start: three test processes for
# two cores. Tests of one connector run in one process (tests/connectors/conftest.py). To debug one: ARGS="-n 0 --pdb".
PROCESSES := $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 )))
WITHOUT_JVM = -q --progress -m "not spark and not connectors and not long" -n $(PROCESSES) --dist loadgroup
# Tests with Spark wait most of the time: two processes, each with a group of tests that share a Spark (tests/spark/conftest.py).
WITH_SPARK = -q --progress -m "spark and not connectors and not long" -n 2 --dist loadgroup
SPARK_TESTS = $(if $(findstring tests/,$(ARGS)),,tests/spark tests/web tests/examples tests/connectors)

# A Java that is not on PATH is remembered by scripts/setup. Read when a recipe runs: the file may be made by this very make.
WITH_JAVA = if [ -s $(VENV)/java-home ]; then export JAVA_HOME="$$(cat $(VENV)/java-home)"; fi;

.DEFAULT_GOAL := help
.PHONY: help install demo demo-kafka test test-unit test-spark test-connectors test-long simulation check lint types layers bench docs pages screenshots wheel clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(READY)  ## set up .venv: Python packages, and a Java for Spark
	@echo "Ready: try make demo, or make test."

$(READY): pyproject.toml scripts/setup
	@scripts/setup

demo: $(READY)  ## run examples/demo.py
	@$(WITH_JAVA) $(PY) examples/demo.py $(ARGS)

demo-kafka: $(READY)  ## run examples/kafka_demo.py: it starts a Kafka broker by itself
	@$(WITH_JAVA) PYTHONPATH=. $(PY) examples/kafka_demo.py $(ARGS)

test: $(READY)  ## all tests: first those without a JVM, then those with Spark
	@$(WITH_JAVA) unit=0; spark=0; \
	echo "== 1 of 2: tests without a JVM"; $(PY) -m pytest $(WITHOUT_JVM) $(ARGS) || unit=$$?; \
	echo "== 2 of 2: tests with Spark";    $(PY) -m pytest $(WITH_SPARK) $(ARGS) $(SPARK_TESTS) || spark=$$?; \
	echo "== without a JVM: $$([ $$unit = 0 ] && echo passed || echo "FAILED (pytest exit code $$unit)")"; \
	echo "== with Spark:    $$([ $$spark = 0 ] && echo passed || echo "FAILED (pytest exit code $$spark)")"; \
	echo "== it took $$((SECONDS / 60)) min $$((SECONDS % 60)) s"; \
	[ $$unit = 0 ] && [ $$spark = 0 ]

test-unit: $(READY)  ## the tests that need no JVM (minutes)
	@$(PY) -m pytest $(WITHOUT_JVM) $(ARGS)

test-spark: $(READY)  ## the tests that start Spark
	@$(WITH_JAVA) $(PY) -m pytest $(WITH_SPARK) $(ARGS) $(SPARK_TESTS)

test-connectors: $(READY)  ## the tests of all connectors, with real servers (fetched the first time)
	@$(WITH_JAVA) scripts/setup connectors && $(PY) -m pytest -q --progress -m "not spark or connectors" -n 2 --dist loadgroup $(ARGS) $(if $(findstring tests/,$(ARGS)),,tests/connectors tests/object_stores)

test-long: $(READY)  ## the tests that take minutes: load, thousands of epochs, random queries, all golden programs all ways
	@$(WITH_JAVA) $(PY) -m pytest -q --progress -m long $(ARGS)

simulation: $(READY)  ## thousands of small jobs that crash at random; ARGS="--seeds 5000", or a seed to see it again
	@$(PY) -m tests.simulation $(if $(ARGS),$(ARGS),--seeds 3000 --takeovers 1000 --job-takeovers 1000 --pipelined 2000)

check: lint types layers  ## lint + types + layers

lint: $(READY)  ## ruff
	@$(PY) -m ruff check .

types: $(READY)  ## mypy, strict, on the package
	@$(PY) -m mypy

layers: $(READY)  ## import-linter: who may import whom
	@$(VENV)/bin/lint-imports

bench: $(READY)  ## measure: python -m bench
	@$(WITH_JAVA) $(PY) -m bench $(ARGS)

docs: pages screenshots  ## write the pages and pictures that are made from the code, and take those of the web UI

pages: $(READY)  ## the part of docs that takes seconds: all but the pictures of the web UI
	@$(PY) scripts/options_page.py
	@$(PY) -m scripts.cli_page
	@$(PY) -m scripts.rest_page
	@$(PY) -m scripts.metrics_page
	@$(PY) -m scripts.functions_page
	@$(PY) -m scripts.connectors_page
	@$(PY) -m scripts.sql_page
	@$(PY) -m scripts.drawings

screenshots: $(READY)  ## take the pictures of the web UI from real jobs; needs Chromium
	@$(WITH_JAVA) $(PY) -m scripts.screenshots

wheel: $(READY)  ## build dist/flott-*.whl
	@$(PY) -m build --wheel --outdir dist

clean:  ## remove .venv, caches and everything built
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
