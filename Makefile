# Each rule makes the virtual environment it needs when it is missing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Keras has no backend "none": nobody can import it there, child processes neither.
BACKENDS ?= none tensorflow jax torch
# Files and folders of tests that run there, and nowhere else.
WITHOUT_KERAS := $(shell cat tests/without_keras.txt)
# For 2 cores: tests that start processes wait for them.
WORKERS ?= 3
# A file stays with one worker, which makes what its tests share once; the order
# is that of tests/conftest.py, by what files take.
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# What no backend can change is tested on one of them, and many variants on PyTorch.
ONCE ?= --once
# How many times the CPU seconds of the budget the tests may take here.
SLOWER ?= 1
# PyTorch is pinned, as other releases may bring CUDA along.
TORCH ?= torch==2.13.0
RUN ?= runs/quickstart
# What runs the model of the demonstration in a browser; others are not tested.
ORT_WEB ?= 1.30.0
# What `make fuzz` runs; `python -m tests.fuzz --case SEED:NUMBER` repeats a case.
CASES ?= 10000
KILLS ?= 60
SEED ?= 0

# Tests on real data look here and are skipped where it is not.
ifneq ($(wildcard ../shared/data),)
export RECSYS_DATA ?= $(abspath ../shared/data)
endif
export TF_CPP_MIN_LOG_LEVEL ?= 2
# What XLA compiles for JAX in one test is there for the other workers, for
# tests that build the same program, and for the next run.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1

# Where it is set, each process compiles every file of the packages again, and
# pytest rewrites every test for each of its workers.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help train test test-all test-quick fuzz lint format notebooks site bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.installed-train: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet -e '.[recsys]'
	touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet -e '.[recsys,faiss,gbdt,mlflow,onnx,orbax,ray,report,serve,site,studies,tfrs,wandb,jax,torch,dev]'
	touch $@ $(VENV)/.installed-train

$(VENV)/.installed-site: $(VENV)/.installed-train
	$(BIN)/pip install --quiet -e '.[recsys,onnx,site]'
	touch $@

# The model that runs in a page of the site, and what runs it there.
build/demo/expected.json: website/demo/model.py | $(VENV)/.installed-site
	KERAS_BACKEND=tensorflow $(BIN)/python -m website.demo.model \
		--out build/demo --work build/demo-work

build/npm/onnxruntime-web-$(ORT_WEB):
	npm install --silent --no-audit --no-fund --no-save \
		--prefix build/npm onnxruntime-web@$(ORT_WEB)
	touch $@

train: $(VENV)/.installed-train ## Train, evaluate, plot and export on the built-in data
	rm -rf $(RUN)
	$(BIN)/recsys train --data synthetic --gate comet --num-experts 16 --k 2 \
		--learning-rate 0.001 --epochs 8 \
		--out $(RUN)
	$(BIN)/recsys export --run $(RUN) --out $(RUN)/export

test: lint ## Run every check on every backend; what needs none, without
	@for backend in $(BACKENDS); do \
		echo "== $$backend"; \
		tests='$(WITHOUT_KERAS:%=--ignore=%)'; \
		if [ $$backend = none ]; then tests='$(WITHOUT_KERAS)'; fi; \
		KERAS_BACKEND=$$backend $(PYTEST) $(ONCE) $$tests \
			--junitxml=.durations/$$backend.xml \
			--left-out=.durations/$$backend.left_out.txt || exit 1; \
	done
	$(BIN)/python -m tests.durations.budget --slower $(SLOWER) \
		$(if $(ONCE),,--all) .durations $(BACKENDS)

test-all: ## Run each check on every backend that can, for hours
	$(MAKE) test ONCE=

test-quick: lint ## Run what needs no training, on PyTorch, which compiles nothing
	KERAS_BACKEND=torch $(PYTEST) -m 'not slow'

fuzz: $(VENV)/.installed-dev ## Run commands on broken files, for an hour, and kill them
	KERAS_BACKEND=torch $(BIN)/python -m tests.fuzz --cases $(CASES) \
		--seed $(SEED) --workers $(WORKERS)
	KERAS_BACKEND=torch $(BIN)/python -m tests.fuzz.kills --cases $(KILLS) \
		--seed $(SEED)

lint: $(VENV)/.installed-dev ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy $$(find tests -name '*.py' ! -name 'test_*')

format: $(VENV)/.installed-dev ## Format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

notebooks: $(VENV)/.installed-dev ## Execute the notebooks and keep what comes out
	KERAS_BACKEND=tensorflow $(BIN)/python notebooks/execute.py

site: $(VENV)/.installed-site build/demo/expected.json build/npm/onnxruntime-web-$(ORT_WEB) ## Build the documentation as a web site, build/site
	KERAS_BACKEND=none NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	$(BIN)/python -m website.demo.check build/site

bench: $(VENV)/.installed-dev ## Time sparse against dense execution, briefly
	@for backend in $(filter-out none,$(BACKENDS)); do \
		KERAS_BACKEND=$$backend $(BIN)/python benchmarks/layer_execution.py \
			--experts 16 32 --rows 4096 --k 2 || exit 1; \
	done

clean: ## Remove the environment and all caches
	rm -rf $(VENV) build .durations *.egg-info .jax_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
