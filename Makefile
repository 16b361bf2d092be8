# One command each. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-builtin-rules --no-print-directory
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 1800
FAULTS ?= 20
PREFIX ?= /usr/local
export CCACHE_BASEDIR := $(CURDIR)
# Folders are mapped out of what is compiled: copies of the sources share results.
export CCACHE_NOHASHDIR := 1

.PHONY: setup build run test test-fast test-device test-debug test-canaries test-mutants soak soak-linearizability soak-schedules soak-faults soak-fleet test-clients test-browser test-bundle wheel test-python test-python-address bench-python bench bench-micro bundle rtl-area fuzz tidy lint format install uninstall deb release clean help

setup: ## install what building and testing need
	@scripts/setup test

build: ## install what building needs; leaves the program at build/bin/tandem, for the GPU too if there is one, and what `cmake --install build` takes
	@scripts/setup build
	@[ -f build/CMakeCache.txt ] || cmake -S . -B build -G Ninja -DTANDEM_TESTS=OFF -DTANDEM_UNITY=ON \
	  -DTANDEM_CUDA=$$(scripts/has_gpu && echo ON || echo OFF)
	@cmake --build build -j $(JOBS) --target tandem tandem_texts tandem_static tandem_shared

run: build ## build, then serve on 127.0.0.1:11211, with the GPU if there is one (ARGS="--memory 1GiB" ...)
	@exec build/bin/tandem serve $(ARGS)

test: ## every test (DEEP=1, as CI: sanitizers, interleavings, fuzzing, planted bugs, mutants, all histories, too; TANDEM_ALL=1: what has passed with the same inputs, too)
	@scripts/setup test
	@build/venv/bin/python scripts/gates.py $(if $(DEEP),--deep)

test-fast: ## layers, texts, pages, functions, format, build, unit and integration tests
	@scripts/setup test
	@build/venv/bin/python scripts/gates.py --fast

test-device: build ## all of conformance with every batch through a simulated device; a third of it, as the tree of sources decides, is in `make test`
	@scripts/setup test
	@TANDEM_OPTIONS='-o gpu=sim,preset=2,gpu_values=64MiB,drop_privileges' build/venv/bin/python -m pytest -q tests/conformance

test-debug: ## a server with debugtime and debugitem, left at build/debug/bin/tandem, and the tests that hold its clock; a part of `make test DEEP=1`
	@scripts/setup test
	@cmake -S . -B build/debug -G Ninja -DTANDEM_DEBUG_COMMANDS=ON -DTANDEM_TESTS=OFF -DTANDEM_UNITY=ON
	@cmake --build build/debug -j $(JOBS) --target tandem
	@TANDEM_BIN=build/debug/bin/tandem build/venv/bin/python -m pytest -q tests/debug

test-canaries: ## the linearizability tests must find each of their planted bugs; a part of `make test DEEP=1`
	@scripts/setup test
	@cmake -S . -B build -G Ninja -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON
	@cmake --build build -j $(JOBS) --target linearizability_recorder tandem_canaries
	@TANDEM_CANARIES=1 build/venv/bin/python -m pytest -q -s tests/linearizability/canaries

test-mutants: ## each small fault of tests/mutants put in, which its test must find (ONLY="NAME ..." for some); a sample is in `make test DEEP=1`
	@scripts/setup test
	@build/venv/bin/python tests/mutants/run.py $(if $(ONLY),--only $(ONLY))

soak: ## verified load at the memory limit, SOAK_SECONDS (default 3600) for each of SOAK_PLANS (cpu mirrored values mega-kv; GPU=0: on the first GPU)
	@scripts/setup test
	@cmake -S . -B build -G Ninja -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON $(if $(GPU),-DTANDEM_CUDA=ON)
	@cmake --build build -j $(JOBS) --target tandem
	@TANDEM_SOAK_GPU=$(or $(GPU),sim) TANDEM_SOAK_SECONDS=$(or $(SOAK_SECONDS),3600) TANDEM_SOAK_PLANS="$(or $(SOAK_PLANS),cpu mirrored values mega-kv)" \
	  build/venv/bin/python -m pytest -q -s tests/soak

soak-linearizability: ## each kind of history again and again for SOAK_SECONDS (default 60), with seeds of its own (GPU=0: on the first GPU)
	@scripts/setup test
	@cmake -S . -B build -G Ninja -DTANDEM_TESTS=ON -DTANDEM_UNITY=ON $(if $(GPU),-DTANDEM_CUDA=ON)
	@cmake --build build -j $(JOBS) --target tandem linearizability_recorder
	@TANDEM_LINEARIZABILITY_GPU=$(or $(GPU),sim) TANDEM_LINEARIZABILITY_SECONDS=$(or $(SOAK_SECONDS),60) TANDEM_LINEARIZABILITY_SEED=$${SEED:-$$((RANDOM * 32768 + RANDOM))} \
	  build/venv/bin/python -m pytest -q -s tests/linearizability

soak-schedules: ## each kind of seeded schedule for SOAK_SECONDS (default 60), from the seed SEED on
	@scripts/setup test
	@scripts/sanitizer_build thread schedules canary_schedules
	@TANDEM_SCHEDULES_SECONDS=$(or $(SOAK_SECONDS),60) TANDEM_SCHEDULES_SEED=$${SEED:-$$((RANDOM * 32768 + RANDOM))} \
	  build/venv/bin/python -m pytest -q -s tests/schedules -k test_every_schedule

soak-faults: build ## more failed allocations and mappings, interrupted calls, connections and lost packets (FAULTS times as many as `make test`, default 20)
	@scripts/setup test
	@TANDEM_FAULTS=$(FAULTS) build/venv/bin/python -m pytest -q -s --timeout 3000 tests/integration/test_faults.py tests/integration/test_allocations.py tests/integration/test_mappings.py tests/integration/test_storms.py tests/integration/test_network.py

soak-fleet: build ## members beside three etcds, each killed in turn, a minute
	@scripts/setup test
	@TANDEM_FLEET=1 build/venv/bin/python -m pytest -q tests/fleet

test-clients: build ## stock clients in Python, Go, Java, Node and C, on Tandem and on memcached
	@scripts/setup clients
	@python3 tests/clients/run.py

test-browser: build ## the live page in a headless browser (installs Chromium)
	@scripts/setup browser
	@TANDEM_BROWSER=1 build/venv/bin/python -m pytest tests/browser -q

bench: build ## all of `tandem bench`, some ten minutes: build/bench-report/index.html (ONLY="compare engine" for some)
	@scripts/setup test
	@$(if $(ONLY),rm -f build/bench-report/*.html build/bench-report/*.png build/bench-report/*.svg,rm -rf build/bench-report)
	@scripts/bench_parts build/bin/tandem build/bench-report quick $(ONLY)

bench-micro: ## micro-benchmarks of the layers (ONLY="index operate" for some)
	@scripts/setup test
	@scripts/bench_micro $(ONLY)

bundle: ## a folder and an archive that run and measure elsewhere without installing: build/bundle (CUDA=1: beside GPUs)
	@scripts/setup test
	@scripts/bundle $(if $(CUDA),cuda)

test-bundle: bundle ## the bundle, run without the libraries of this machine
	@TANDEM_BUNDLE=1 build/venv/bin/python -m pytest tests/bundle -q

wheel: ## the Python package with its module, libtandem.so and the server, in build/wheel: a wheel for Python 3.10 and newer
	@scripts/setup wheel
	@scripts/wheel

test-python: build ## the wheel on each Python that there is: its tests; on the newest Django's, cachelib's and pymemcache's, mypy, the examples (PYTHONS="3.11 3.13" for some)
	@scripts/setup test
	@scripts/test_python $(PYTHONS)

test-python-address: ## the Python package's own tests on Python 3.11 (PYTHON=3.13: on that one), module and library built with AddressSanitizer and UBSan
	@scripts/setup test
	@scripts/test_python --address $(PYTHON)

bench-python: ## the Python package beside lmdb, diskcache, cachetools and its own C call, some two minutes: build/bench-python
	@scripts/setup test
	@scripts/bench_python

rtl-area: ## what the accelerator's design in rtl/ takes of an FPGA, as Yosys estimates it (apt-get install yosys), three minutes
	@command -v yosys >/dev/null || { echo "make rtl-area: needs yosys" >&2; exit 1; }
	@python3 rtl/area.py

fuzz: ## each fuzz target for FUZZ_SECONDS (default 1800)
	@scripts/setup test
	@scripts/fuzz $(FUZZ_SECONDS)

tidy: ## clang-tidy over the product's sources that have changed since they were found clean; `make test` does so, but for a fresh clone
	@scripts/setup test
	@build/venv/bin/python scripts/gates.py --only tidy --product

lint: ## texts, links, long functions, format, clang-tidy (tests and benchmarks too), script linters, a build of one source at a time
	@scripts/setup test
	@build/venv/bin/python scripts/gates.py --only layers text pages functions format scripts tidy
	@cmake -S . -B build/apart -G Ninja -DTANDEM_TESTS=ON # a source may lack an include that its neighbours in TANDEM_UNITY have
	@cmake --build build/apart -j $(JOBS)

format: ## rewrite sources in the one format
	@scripts/setup test
	@scripts/format

install: build ## program, manual, completions, unit, embedded library, to PREFIX (default /usr/local) under DESTDIR
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)
	@# Packages (DESTDIR) leave the loader's cache to the package manager.
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

uninstall: ## remove what the last `make install` put in place (same DESTDIR)
	@DESTDIR=$(DESTDIR) cmake -DBUILD=build -P cmake/uninstall.cmake

deb: build ## Debian packages, in build/packages
	@cd build && cpack

release: ## every artefact of a release, checked, in build/release: packages, wheel, archive, image, chart, SBOM, checksums
	@scripts/release/all

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do \
	  printf '%-20s %s\n' "$$name" "$$text"; done
