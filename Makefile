# wrapper_ir: `make` lists the targets. Everything runs from .venv, which `make setup` makes once.

# The release of torch that constraints.txt names. `make TARGET TORCH=2.13.0` uses another one, in an
# environment of its own.
PINNED := $(shell sed -n 's/^torch==//p' constraints.txt)
TORCH  ?= $(PINNED)
VENV   := .venv$(if $(filter-out $(PINNED),$(TORCH)),-$(TORCH))
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.wrapper-ir-installed
# The first interpreter that runs and is new enough; a version manager's shim may exist and not run.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

# Tests and benchmarks start hundreds of processes, which are to find our modules compiled, as users do.
unexport PYTHONDONTWRITEBYTECODE

# What is compared and measured in C++ is C++ from the first call on.
export WRAPPER_IR_BUILD := wait

# Warnings are errors. The variable silences an advertisement.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# How many tests run at once; most of them wait for a compiler. Each worker takes a run of files, so
# that what the tests of a file share is made once; one that is done takes some of another's.
WORKERS ?= 2

# Element types in which `make opinfo` tries every fourth op; float32 is tried whole.
OPINFO_DTYPES := float64 bfloat16 int64 bool complex64 float16 int32

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-torch test-sample test-radar rehearsal release-check models gpu check docs wheel release fuzz mutants seeded opinfo zoo odd changes sweep explorer pictures compare bench sanitize disorders format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv and install the project with its tools, once

$(STAMP): pyproject.toml constraints.txt $(wildcard tests/plugin_emitter/*.toml tests/plugin_emitter/*/*.py)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > $(VENV)/constraints.txt
	PIP_CONSTRAINT=$(VENV)/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps ./tests/plugin_emitter
	@touch $@

demo: setup ## compile, train and run a small transformer; leaves program.wir and wrapper.py
	$(BIN)/python examples/demo.py

test: check ## everything `check` does, then the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long and not models and not releases and not gpu"

test-long: setup ## what takes long for what it adds to the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not models"

# What depends on torch; the rest of the tests reads and writes programs.
TORCH_TESTS := frontends frontends_aten distributed emitters export native runtime interpreter toolchain explorer/test_logs.py

test-torch: setup ## the tests that depend on torch, on another release: make test-torch TORCH=2.13.0
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long and not models and not gpu" $(TORCH_TESTS:%=tests/%)

# About a tenth of those: what tells releases apart soonest, and a run of each emitter and package.
SAMPLE := frontends/test_convert frontends/test_raw_lines frontends/test_rare_lowerings \
	frontends/test_exported_ranges frontends/test_registration frontends/test_releases \
	frontends/test_streams frontends/test_torch_compile frontends/test_unsupported \
	frontends_aten/test_graphs emitters/test_python_run emitters/fx/test_fx_graph \
	emitters/cpp_runtime/test_models export/test_contract export/test_package \
	native/test_interface runtime/test_private toolchain/test_against_inductor

test-sample: setup ## a tenth of test-torch: make test-sample TORCH=2.13.0
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long and not models and not gpu" $(SAMPLE:%=tests/%.py)

test-radar: setup ## the radar over whole releases: after `make setup TORCH=2.13.0` over that one, too
	$(BIN)/python -m pytest -m releases tests/tools

rehearsal: setup ## torch 2.15 as a 2.16 with one thing changed, 34 times: what we say of it (20 minutes)
	$(BIN)/python -m tools.rehearsal --jobs $(WORKERS) --write

release-check: ## what continuous integration leaves out: long tests, the radar, other releases (two hours)
	$(MAKE) test-long
	$(MAKE) test-torch TORCH=2.11.0
	$(MAKE) test-torch TORCH=2.12.0
	$(MAKE) test-torch TORCH=2.13.0
	$(MAKE) test-radar
	$(MAKE) test-torch TORCH=2.14.1

models: setup ## every model of the zoo through every emitter, against the Python emitter
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m models

gpu: setup ## what needs a GPU and Triton: tests, then the cost of a call
	$(BIN)/python -m pytest -m gpu tests/gpu tests/distributed
	$(BIN)/python benchmarks/gpu.py

check: setup ## ruff, black, mypy, import-linter, the documents as a site
	$(BIN)/ruff check .
	$(BIN)/black --check --quiet .
	$(BIN)/mypy --num-workers $(WORKERS)
	$(BIN)/lint-imports
	$(SITE)

docs: setup ## the documents as a site, in site/
	$(SITE)

wheel: setup ## build a wheel, install it in an empty folder and try it there
	$(BIN)/python -m pytest tests/test_wheel.py

release: setup ## sdist and wheel from a clean clone, tried in empty environments (PYTHONS="python3.11 ..." HOME_URL=https://...), checksums, the site
	$(BIN)/python -m tools.release $(PYTHONS:%=--python %) $(if $(HOME_URL),--home-url '$(HOME_URL)')
	$(SITE)

explorer: ## build the explorer's page from explorer/ (needs node 20 or newer)
	cd explorer && npm ci --silent && npm run --silent build

pictures: setup ## the documents' pictures of the explorer, from a headless Chromium
	$(BIN)/python -m tools.explorer_pictures

SECONDS ?= 60
SEED ?= 0

compare: setup ## our models on another release of torch and on the pinned one, for docs/compare.md: make compare TORCH=2.13.0
	$(MAKE) setup TORCH=$(PINNED)
	$(BIN)/python -W ignore -m tools.captures make captures/$(TORCH)
	.venv/bin/python -W ignore -m tools.captures make captures/$(PINNED)
	.venv/bin/python -W ignore -m tools.captures report captures

fuzz: setup ## made-up programs in four ways, for SECONDS=60 from SEED=0 on; or LINES=1000000
	$(BIN)/python -W ignore -m tests.fuzz --seed $(SEED) \
		$(if $(LINES),--lines $(LINES),--seconds $(SECONDS)) $(if $(LOG),--log $(LOG))

mutants: setup ## 500 made-up programs, each broken in many places: what the verifier finds (5 minutes)
	$(BIN)/python -W ignore -m tests.fuzz.mutation

disorders: setup ## 60 made-up programs of several ranks, each disordered: what verify_ranks finds (2 minutes)
	$(BIN)/python -W ignore -m tests.distributed.disorders

opinfo: setup ## torch's own samples of its ops and modules, gradients too, against stock Inductor (hours; goes on where it was)
	$(BIN)/python -m tools.opinfo --write
	$(BIN)/python -m tools.opinfo --every 4 $(OPINFO_DTYPES:%=--dtype %) --write
	$(BIN)/python -m tools.opinfo --backward --write
	$(BIN)/python -m tools.opinfo --modules --write
	$(BIN)/python -m tools.opinfo --modules --backward --write
	$(BIN)/python -m tools.opinfo --dynamic --every 4 --write
	$(BIN)/python -m tools.opinfo --front-end from_fx --emitter python

seeded: setup ## faults put into programs of whole models: who finds them (3 minutes; MODELS=glob,... for some)
	$(BIN)/python -W ignore -m tests.seeded --models '$(or $(MODELS),*)' --seed $(SEED)

zoo: setup ## whole models against stock Inductor, all emitters (hours; MODELS=glob,... for some)
	$(BIN)/python -m tests.zoo --models '$(or $(MODELS),*)' --jobs $(WORKERS)

odd: setup ## odd functions against stock Inductor, all emitters and packages (an hour; FUNCTIONS=glob,... for some)
	$(BIN)/python -m tests.odd --functions '$(or $(FUNCTIONS),*)'

changes: setup ## change what guards look at between calls, and compare with eager (COUNT=1000 from SEED=0, EMITTER=python; DOOR=compile|jit)
	$(BIN)/python -W ignore -m tests.changes --count $(or $(COUNT),1000) --seed $(SEED) --emitter $(or $(EMITTER),python) --door $(or $(DOOR),compile)

DEVICE ?= $(shell $(BIN)/python -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")' 2>/dev/null)
JOBS ?= 1

sweep: setup ## workloads of real sizes against stock Inductor, for SECONDS=60 from SEED=0 on (DEVICE=cuda|cpu JOBS=1; TRY='...' one again)
	$(BIN)/python -W ignore -m tests.sweep --device $(DEVICE) --seed $(SEED) --jobs $(JOBS) \
		$(if $(TRY),--try '$(TRY)',--seconds $(SECONDS)) \
		$(if $(FAMILIES),--families '$(FAMILIES)') $(if $(RESULTS),--results $(RESULTS))

bench: setup ## every benchmark, each bound beside what was found (about half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/overhead.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/binding.py
	$(BIN)/python -m benchmarks.whole_call
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python -m benchmarks.ranks
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/planner.py
	$(BIN)/python benchmarks/probes.py
	$(BIN)/python benchmarks/diff.py
	$(BIN)/python -m benchmarks.explorer
	$(BIN)/python benchmarks/aot_scale.py
	$(BIN)/python -m benchmarks.aot
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.peaks
	$(BIN)/python -m benchmarks.step_peaks
	$(BIN)/python -m benchmarks.memory

sanitize: setup ## the corpus as libraries and calls into the module under ASan and UBSan, a sample under valgrind, heaps under TSan (20 minutes)
	$(BIN)/python -W ignore -m tests.sanitize.corpus
	$(BIN)/python -W ignore -m tests.sanitize.module
	$(BIN)/python -W ignore -m tests.sanitize.valgrind
	$(BIN)/python -W ignore -m tests.sanitize.heap

format: setup ## let ruff and black rewrite what they can
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/black --quiet .

clean: ## remove every environment and every tool's cache
	rm -rf .venv .venv-* site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
