# What a user needs: make demo, make test. Everything else is a step of these.
#
#   make demo      install what is missing, build, optimise one example, show what was gained
#   make test      all tests (CTest and pytest), formatting and lint checks included
#   make build     build/bin/planish and its parts
#   make wheel     a wheel for Linux with glibc 2.34 or newer, tried in a clean environment
#   make docs      the documents as a site, into build/site; links that lead nowhere fail
#   make dist      a folder that runs on another x86-64 Linux with nothing but PyTorch
#   make test-ray  suites on a Ray cluster of this machine; installs ray
#   make golden    accepts what code generation prints now as tests/golden; look at its diff
#   make test-gpu  the GPU tests; in a checkout, or in a dist folder
#   make cheats    the whole cheat corpus on the CPU, with its table (docs/results/cheats.md), and the gate as a classifier (docs/results/gate); minutes
#   make compatibility  models of transformers, diffusers, timm and torchvision, each taken or refused, with its gain; an hour on two cores
#   make sanitize  what reads bytes of others, with its tests and fuzzing, under ASan and UBSan
#   make soak      shipped modules under mixed calls from many threads, for SOAK_MINUTES
#
# A torch that PYTHON can import is used as it is; otherwise TORCH names what is installed into .venv.
PYTHON ?= python3
TORCH ?= torch==2.13.0
# For the tests of emitted Triton; a 188 MB wheel, 640 MB on disk. Empty: those tests are skipped where there is none.
TRITON ?= triton==3.6.0
MCP ?= mcp==2.3.0
JOBS ?= $(shell nproc)
VENV := .venv
BUILD := build
DOCS := $(BUILD)/docs-venv
ZOO := $(BUILD)/models-venv

PACKAGES := g++ cmake ninja-build nlohmann-json3-dev libcli11-dev libsqlite3-dev libfmt-dev libssl-dev zlib1g-dev libyaml-cpp-dev doctest-dev ccache \
            libcurl4-openssl-dev libmicrohttpd-dev libtomlplusplus-dev python3-dev python3-venv
CHECK_PACKAGES := clang-format-19 clang-tidy-19

PYTEST := OMP_NUM_THREADS=1 PLANISH_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python -m pytest -o cache_dir=$(abspath $(BUILD))/pytest
# The slow files first, in this order: xdist would begin with those that have most tests, and end with one that takes a minute, alone.
SUITE := tests/docs tests/cli tests/cheats tests/random_graphs tests/operators tests/triton_emit tests/python

.PHONY: demo docs test golden browser build wheel dist test-ray test-gpu cheats compatibility soak sanitize setup setup-models setup-triton setup-mcp setup-docs check lint tidy clean

demo: build
	@echo "3 of 3: optimising examples/cpu/gated_blend.py" >&2
	@$(BUILD)/bin/planish optimize examples/cpu/gated_blend.py --budget 5s --baselines eager,compile --out $(BUILD)/demo || [ $$? -eq 1 ]
	@$(VENV)/bin/python cmake/demo.py $(BUILD)/demo/result.json

SETUP = PACKAGES="$(PACKAGES) $(if $(CHECKS),$(CHECK_PACKAGES))" PYTHON="$(PYTHON)" TORCH="$(TORCH)" VENV="$(VENV)" sh cmake/setup.sh

setup:
	@$(SETUP) packages
	@$(SETUP) python
	@$(SETUP) checks

# What tests and checks need is for whoever goes on to them.
CHECKS := checks
demo: CHECKS :=

# What is compiled needs no PyTorch: that is fetched and unpacked meanwhile. On a terminal ninja counts what it compiles; elsewhere it speaks of errors alone.
build:
	@$(SETUP) packages
	@{ $(SETUP) python beside $(if $(CHECKS),&& $(SETUP) checks beside); } & python=$$!; \
	  { test -f $(BUILD)/build.ninja || cmake -G Ninja -S . -B $(BUILD) >/dev/null; } && \
	  if [ -t 1 ]; then NINJA_STATUS="2 of 3: building, %f of %t, %e s: " ninja -C $(BUILD) -j $(JOBS); else ninja -C $(BUILD) -j $(JOBS) --quiet; fi; \
	  built=$$?; wait $$python && exit $$built

# The report is looked at in Chromium (124 MB to fetch, 414 MB on the disk, 20 s); where it cannot be installed those tests are skipped.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" -eq 0 ] && echo "installing chromium" >&2 && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium >/dev/null; } || \
	  echo "note: there is no chromium; the tests that look at the report in it will be skipped" >&2

# The official client of the Model Context Protocol, for the test of planish mcp (46 MB with what it needs); skipped without it.
setup-mcp: setup
	@test -z "$(MCP)" || $(VENV)/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("mcp") is None)' || \
	  $(VENV)/bin/python -m pip install -q --disable-pip-version-check "$(MCP)" || \
	  echo "note: the Python package mcp could not be installed; the test with its client will be skipped" >&2

# A CUDA torch brings its own.
setup-triton: setup
	@test -z "$(TRITON)" || $(VENV)/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("triton") is None)' || \
	  $(VENV)/bin/python -m pip install -q --disable-pip-version-check "$(TRITON)" || \
	  echo "note: Triton could not be installed; the tests of emitted Triton will be skipped" >&2

# An environment of its own (250 MB), which sees the packages of the other one; tests of the site, of types as pyright sees them and of the notebook are
# skipped without it.
setup-docs: setup
	@test -f $(DOCS)/done || { echo "installing what makes the documents" >&2 && $(VENV)/bin/python -m venv $(DOCS) && \
	  $(DOCS)/bin/python -m pip install -q --no-compile --disable-pip-version-check -r docs/site/requirements.txt && \
	  $(VENV)/bin/python -c 'import sys; print("import site;", "; ".join(f"site.addsitedir({p!r})" for p in sys.path if p.endswith("-packages")))' > \
	    $$($(DOCS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/planish.pth && touch $(DOCS)/done; } || \
	  echo "note: mkdocs, pyright and nbclient could not be installed; tests with them will be skipped" >&2

docs: setup-docs
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# Libraries of models in an environment of its own (350 MB), which sees the torch of the other one. Whatever cannot be imported beside that torch goes again:
# transformers imports what it finds.
setup-models: setup
	@test -f $(ZOO)/done || { echo "installing transformers, diffusers, timm, torchvision and torchaudio" >&2 && $(VENV)/bin/python -m venv $(ZOO) && \
	  $(VENV)/bin/python -c 'import sys; print("import site;", "; ".join(f"site.addsitedir({p!r})" for p in sys.path if p.endswith("-packages")))' > \
	    $$($(ZOO)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/planish.pth && \
	  cp bench/compatibility/models/declare_torchvision.py $$($(ZOO)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  echo "import declare_torchvision" > $$($(ZOO)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchvision.pth && \
	  $(ZOO)/bin/python -m pip install -q --no-compile --disable-pip-version-check -r bench/compatibility/models/requirements.txt && \
	  $(ZOO)/bin/python -m pip install -q --no-compile --no-deps --disable-pip-version-check timm torchvision torchaudio && \
	  $(ZOO)/bin/python bench/compatibility/models/libraries.py | xargs -r $(ZOO)/bin/python -m pip uninstall -q -y && touch $(ZOO)/done; }

# MODELS: options of the command, as --quick, --capture or "--only Llama --again". Rows of an interrupted run stay, and are not made again on the same day.
MODELS ?=
compatibility: build setup-models
	$(ZOO)/bin/python bench/compatibility/models --page docs/results/compatibility.md $(MODELS)

test: build lint browser setup-triton setup-mcp setup-docs
	@ninja -C $(BUILD) -j $(JOBS) --quiet tests
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)
	@# One thread: the tensors are small, and other processes share the cores. Two at once: most of a test is waiting for processes. What fails so is
	@# run again with the machine to itself, since some of it searches under limits of time; both runs are printed, the second decides, and what
	@# passed in it alone is named at the end: no test asks for a gain that a busy machine hides, so that a name there is a question.
	@$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder $(SUITE) || { [ $$? -eq 1 ] && cp $(BUILD)/pytest/v/cache/lastfailed $(BUILD)/failed-beside-others.json && \
	  echo "again, one at a time, what failed beside others:" >&2 && $(PYTEST) --last-failed --last-failed-no-failures none $(SUITE) && \
	  echo "passed, but only with the machine to themselves (what they ask may hang on the clock, or a regression hide behind it):" >&2 && \
	  sed -n 's/^ *"\(.*\)": true,*$$/  \1/p' $(BUILD)/failed-beside-others.json >&2; }

golden: build
	@ninja -C $(BUILD) -j $(JOBS) --quiet test_codegen
	PLANISH_ACCEPT_GOLDEN=1 $(BUILD)/bin/test_codegen -tc='golden sources*'
	@git status --short tests/golden

# Suites on a cluster, with Ray on this machine: 70 MB to fetch, 200 MB on the disk, some minutes. `make test` skips these where ray is not there.
test-ray: build
	@$(VENV)/bin/python -c 'import ray' 2>/dev/null || $(VENV)/bin/python -m pip install -q --disable-pip-version-check ray
	$(PYTEST) tests/cli/test_ray.py

lint: setup
	$(VENV)/bin/ruff check --no-cache python tests bench examples
	$(VENV)/bin/mypy --cache-dir $(abspath $(BUILD))/mypy
	@clang-format-19 --dry-run --Werror $$(git ls-files '*.h' '*.cpp' '*.cc' '*.cuh')

# Slow on two cores (minutes): not part of `make test`.
tidy: build
	@git ls-files 'src/*.cpp' 'runtime/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-19 --quiet -p $(BUILD)

# One for every CPython from 3.11 on, into build/wheelhouse; compiles in a folder of its own. tests/cli/test_wheel.py does the same with what is built.
wheel: setup
	@sh cmake/wheel.sh $(abspath $(VENV))/bin/python $(abspath $(BUILD))/wheelhouse
	@echo "trying it" >&2
	@sh cmake/try_wheel.sh $(abspath $(VENV))/bin/python $(abspath $(BUILD))/wheelhouse/planish-*.whl

dist: build
	@ninja -C $(BUILD) -j $(JOBS) --quiet planish-emit-dump planish-graph-programs planish-search-draw planish-contraction-dump
	@sh cmake/dist.sh $(BUILD) dist

# Too long for CI. SOAK_TARGET=cuda for the GPUs.
SOAK_MINUTES ?= 10
SOAK_TARGET ?= cpu
soak: build
	$(VENV)/bin/python bench/soak.py --target $(SOAK_TARGET) --minutes $(SOAK_MINUTES)

# The whole cheat corpus, with its table: minutes. `make test` has a part of it.
cheats: build
	OMP_NUM_THREADS=1 PLANISH_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python tests/cheats/run_corpus.py --out docs/results/cheats.md
	OMP_NUM_THREADS=1 PLANISH_BUILD=$(abspath $(BUILD)) $(VENV)/bin/python bench/gate/run.py --json docs/results/gate/cpu.json

# Parsers, wire readers and the runtime, in a build of their own. FUZZ_CASES documents for each program parser, a tenth for each reader of the wire.
SANITIZED := base ir program worker runtime runtime_cuda fuzz
FUZZ_CASES ?= 20000
sanitize: setup
	@test -f $(BUILD)-sanitize/build.ninja || cmake -G Ninja -S . -B $(BUILD)-sanitize -DPLANISH_SANITIZE=ON >/dev/null
	@ninja -C $(BUILD)-sanitize -j $(JOBS) --quiet $(addprefix test_,$(SANITIZED))
	PLANISH_FUZZ_CASES=$(FUZZ_CASES) ctest --test-dir $(BUILD)-sanitize --output-on-failure -R '^($(subst $() ,|,$(SANITIZED)))$$'

test-gpu:
	@sh tests/gpu/run.sh

clean:
	rm -rf $(BUILD) dist
