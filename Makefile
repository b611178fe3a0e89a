# `make demo` and `make test` are all a fresh clone needs: each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := dev,docs,render,pettingzoo,sb3,reference,train,report,play,video
READY := $(VENV)/.ready
CHROMIUM ?= /usr/bin/chromium

.PHONY: demo test test-slow test-browser coverage lint spelling format bench docs gallery setup clean

demo: $(READY)
	$(BIN)/macop demo --gif demo.gif --train

test: $(READY)
	$(BIN)/python -m pytest -n 2

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# Installs what it needs: Playwright, and Debian's Chromium where there is none and apt-get may be used.
test-browser: $(READY)
	test -x $(CHROMIUM) || { apt-get update -q && apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core; }
	$(BIN)/python -m pip install --quiet -e '.[browser]' -c constraints.txt
	MACOP_CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -m browser tests/play tests/deploy/test_browser.py

coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term --cov-report=html

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

spelling: $(READY)
	$(BIN)/codespell

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/env_throughput.py --out benchmarks/results/env_throughput.md --readme docs/speed.md

docs: $(READY)
	$(BIN)/python docs/hooks/notebook.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

gallery: $(READY)
	$(BIN)/python benchmarks/gallery.py
	$(BIN)/python benchmarks/readme_results.py

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet -e '.[$(EXTRAS)]' -c constraints.txt
	touch $(READY)

clean:
	rm -rf $(VENV) demo.gif dist site .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
