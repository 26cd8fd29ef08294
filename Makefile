PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm
# `make test-trl` takes the lowest versions that pyproject.toml allows, `make test-trl TRL=1.15.0` another release of TRL.
TRL ?= oldest
TRL_VENV := .venv-trl-$(TRL)
LOWEST := $(shell sed -nE 's/^    "(trl|transformers|accelerate)>=([0-9.]+).*/\1==\2/p' pyproject.toml)
TRL_PINS := $(if $(filter oldest,$(TRL)),$(LOWEST),trl==$(TRL))
# TRL 1.15 computes log-probabilities with Triton only, which a CPU can interpret.
TRITON := $(if $(filter 1.15%,$(TRL)),1)
# The first file says what a release has changed: where it fails, all others do, without saying why.
TRL_TESTS := $(addprefix tests/test_,compatibility.py trainer.py drop_in.py microbatch.py correctness.py)
# A process per core; each takes about a gigabyte. A file's tests share what is made for them, so they stay together.
PARALLEL := -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder
export TOKENIZERS_PARALLELISM := false
# Keep freed memory in the process: with tensors this small, getting it back from the system takes most of the time.
export MALLOC_MMAP_MAX_ := 0
export MALLOC_TRIM_THRESHOLD_ := 8589934592
export MALLOC_TOP_PAD_ := 67108864

.PHONY: install quickstart test check test-vllm test-trl lint format docs notebooks reproduce reproduction-tables checkpoint clean

install: $(VENV)/.installed ## Make .venv with the pinned versions

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"This is Python %d.%d, but 3.11 or newer is needed: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@echo "Installing into $(VENV), which takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# First and by exact version: a range would fetch a build for GPUs where a smaller one is at hand.
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	@# Setuptools warns of every editable installation.
	PYTHONWARNINGS="ignore:Editable installation" \
		$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

quickstart: install ## Train GRPO and CODA on the ladder, print the table, write plots and the report
	$(BIN)/python recipes/quickstart.py

test: install ## Run all tests, on all cores
	$(BIN)/python -m pytest $(PARALLEL)

check: lint ## Check style and layers, and run all tests that are not marked as slow
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

test-vllm: $(VLLM_VENV)/.installed ## Run the tests that need vLLM, on the CPU, in an environment of their own
	$(VLLM_VENV)/bin/python -m pytest tests/with_vllm

$(VLLM_VENV)/.installed: tests/with_vllm/requirements.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(VLLM_VENV)/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(VLLM_VENV)/bin/python -m pip install --quiet --no-deps --requirement $<
	$(VLLM_VENV)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

test-trl: $(TRL_VENV)/.installed ## Run the trainer's tests on another release of TRL, in an environment of its own
	$(if $(TRITON),TRITON_INTERPRET=1 )$(TRL_VENV)/bin/python -m pytest --maxfail 10 $(TRL_TESTS)

$(TRL_VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TRL_VENV)
	$(TRL_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(TRL_VENV)/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	@# What the pinned versions pull along with them is free, so that the older ones can be had.
	grep -vE '^(trl|transformers|accelerate|huggingface_hub|tokenizers|fsspec)==' constraints.txt > $(TRL_VENV)/constraints.txt
	$(TRL_VENV)/bin/python -m pip install --quiet --constraint $(TRL_VENV)/constraints.txt $(TRL_PINS) $(if $(TRITON),triton) --editable ".[test]"
	touch $@

lint: install ## Check style and the order of layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: install ## Fix style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install ## Rebuild the pictures, tables and reference pages of docs/
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/make_reference.py

notebooks: install ## Run the notebooks and store them with their outputs
	$(BIN)/python notebooks/execute.py

reproduce: install ## Run the paper's methods and ablations on the ladder, one run per core; stop and restart at will
	$(BIN)/python -m experiments.ladder.reproduce

reproduction-tables: install ## Rebuild tables, figures and docs/reproduction.md from the runs
	$(BIN)/python -m experiments.ladder.rebuild

checkpoint: install ## Rebuild the ladder's checkpoint (a GPU: minutes; a CPU core: more than an hour)
	$(BIN)/python -m coda_trl.ladder.pretrain --out coda_trl/ladder/checkpoint

clean:
	rm -rf $(VENV) $(VLLM_VENV) .venv-trl-* runs build *.egg-info
