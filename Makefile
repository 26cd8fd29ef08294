PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export TOKENIZERS_PARALLELISM := false
# Keep freed memory in the process: with tensors this small, getting it back from the system takes most of the time.
export MALLOC_MMAP_MAX_ := 0
export MALLOC_TRIM_THRESHOLD_ := 8589934592
export MALLOC_TOP_PAD_ := 67108864

.PHONY: install quickstart test lint format checkpoint clean

install: $(VENV)/.installed ## Make .venv with the pinned versions

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	# First and by exact version: a range would fetch a build for GPUs where a smaller one is at hand.
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

quickstart: install ## Train GRPO and CODA on the ladder, print the table, write plots and the report
	$(BIN)/python recipes/quickstart.py

test: install ## Run the whole test suite
	$(BIN)/python -m pytest

lint: install ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install ## Mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

checkpoint: install ## Make the ladder's checkpoint anew (a GPU: minutes; a CPU core: more than an hour)
	$(BIN)/python -m coda_trl.ladder.pretrain --out coda_trl/ladder/checkpoint

clean:
	rm -rf $(VENV) runs build *.egg-info
