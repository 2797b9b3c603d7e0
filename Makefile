# make demo   the main job on traces that ship with rematsim: tables and figures in out/
# make test   format, lint, types, tests
# Both make .venv and install what they need, if that has not been done.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2
SOURCES := sim traces heuristics analysis tests examples benchmarks docs
DEMO := out/demo
MODELS := resnet32 densenet unet lstm treelstm gpt vit_2steps llama_7b

SITE := out/site

.PHONY: help demo test docs docs-outputs bench clean format lint types sizes tests

help:
	@echo "make demo    sweep bundled traces over heuristics and budgets; draw the figures"
	@echo "make test    format, lint, types, sizes, tests (under 10 minutes on two cores)"
	@echo "make docs    run the notebooks of examples/ and build the site into $(SITE)/"
	@echo "make docs-outputs  run the commands in README and docs, and write their outputs anew"
	@echo "make bench   measure speed: never part of the tests"
	@echo "make format  put the sources into the one format"
	@echo "make clean   remove what was made, .venv and out/ included"

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/pip
	$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(BIN)/pip
	$(PIP) --editable ".[test]"
	@touch $@ $(VENV)/installed

# Who builds the site tests as well: one installation for both.
$(VENV)/installed-docs: pyproject.toml | $(BIN)/pip
	$(PIP) --no-compile --editable ".[test,docs]"
	@touch $@ $(VENV)/installed $(VENV)/installed-test

demo: $(VENV)/installed
	@mkdir -p out
	$(BIN)/rematsim sweep $(MODELS:%=bundled:%) \
	    --budget 0.1x:1.0x:0.1x --out $(DEMO).sqlite --csv $(DEMO).csv
	@$(BIN)/rematsim plot $(DEMO).sqlite --kind overhead --out $(DEMO)-overhead.png >/dev/null
	$(BIN)/rematsim replay bundled:resnet32 --heuristic h_DTR_eq --budget 0.4x \
	    --save-run $(DEMO).run
	@$(BIN)/rematsim plot $(DEMO).run --out $(DEMO)-memory.png >/dev/null
	@echo
	@echo "Written:"
	@echo "  $(DEMO).sqlite        every run: eight models, six heuristics, ten budgets"
	@echo "  $(DEMO).csv           the same"
	@echo "  $(DEMO)-overhead.png  slowdown against budget"
	@echo "  $(DEMO).run           one run in full: row, event log, storages"
	@echo "  $(DEMO)-memory.png    its memory over time"

test: lint types sizes tests

lint: $(VENV)/installed-test
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

# The packages are folders under other names (pyproject.toml); mypy needs to see them as one tree.
types: $(VENV)/installed-test
	@rm -rf build/types && mkdir -p build/types/rematsim
	@ln -s $(CURDIR)/sim/* $(CURDIR)/traces $(CURDIR)/heuristics $(CURDIR)/analysis \
	    build/types/rematsim/
	MYPYPATH=build/types $(BIN)/mypy -p rematsim

sizes: $(VENV)/installed-test
	$(BIN)/python tests/test_style.py

tests: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup

# A warning is an error: a link to nothing, a page in no table of contents. The site must not need
# the network.
docs: $(VENV)/installed-docs
	$(BIN)/python docs/run_notebooks.py
	$(BIN)/sphinx-build -q -W --keep-going -b html -d out/doctrees docs $(SITE)
	@! grep -rnE '(src|href)="(https?:)?//[^"]+\.(js|css|woff2?)"' --include='*.html' $(SITE)
	@echo "Written: $(SITE)/index.html"

docs-outputs: $(VENV)/installed-test
	$(BIN)/python tests/rewrite_outputs.py

bench: $(VENV)/installed
	$(BIN)/python benchmarks/replay.py

format: $(VENV)/installed-test
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

clean:
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
