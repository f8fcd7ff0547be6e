# The commands of the project; `make help` lists them. The build itself is CMake's (CMakePresets.json).

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: help build bootstrap test check-slow demo fuzz sanitize tsan single-files format bench clean

JOBS ?= $(shell nproc)
FUZZ_RUNS ?= 1000000
FUZZ_MAX_LEN ?= 4096
CMAKE_FLAGS ?=
CTEST = ctest --output-on-failure -j$(JOBS)
# Slow tests are not built for the quick ones; ctest would say so as a failure.
QUICK = -LE slow -E 'slow_test_NOT_BUILT$$'

# $(call cmake,PRESET,FOLDER[,TARGET])
define cmake
cmake --preset $(1) $(CMAKE_FLAGS) >/dev/null
cmake --build $(2) -j$(JOBS) $(if $(3),--target $(3))
endef

help: ## this list
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

build: ## build/heddle and the tests
	$(call cmake,release,build)

bootstrap: ## install the Debian packages that are missing
	@scripts/bootstrap

test: bootstrap build ## bootstrap, build, and every test that is not slow
	$(CTEST) --test-dir build $(QUICK)

check-slow: bootstrap build sanitize single-files ## the slow tests, all tests under ASan and UBSan, every file on its own
	$(call cmake,release,build,slow_tests)
	$(CTEST) --test-dir build -L slow --no-tests=ignore

demo: bootstrap build ## bootstrap, build, and show what heddle does
	@scripts/demo

fuzz: ## every fuzz target for FUZZ_RUNS inputs (default 1000000)
	@scripts/bootstrap --fuzz
	$(call cmake,fuzz,build-fuzz,fuzzers)
	@set -e; for target in build-fuzz/heddle_*_fuzz; do \
	  [ -x "$$target" ] || { echo "no fuzz targets"; continue; }; \
	  name=$$(basename "$$target"); name=$${name#heddle_}; \
	  mkdir -p "build-fuzz/corpus/$$name" build-fuzz/found; log=build-fuzz/$$name.log; \
	  seeds=tests/fuzz_corpus/$$name; [ -d "$$seeds" ] || seeds=; \
	  echo "$$name: $(FUZZ_RUNS) runs"; \
	  "$$target" -runs=$(FUZZ_RUNS) -max_len=$(FUZZ_MAX_LEN) -timeout=25 -artifact_prefix="build-fuzz/found/$$name-" \
	    "build-fuzz/corpus/$$name" $$seeds >"$$log" 2>&1 || { tail -n 50 "$$log"; exit 1; }; \
	done

sanitize: bootstrap ## all quick tests under AddressSanitizer and UBSan (without libtorch)
	$(call cmake,dev,build-dev)
	$(CTEST) --test-dir build-dev $(QUICK)

tsan: bootstrap ## all quick tests under ThreadSanitizer (without libtorch)
	$(call cmake,tsan,build-tsan)
	$(CTEST) --test-dir build-tsan $(QUICK)

single-files: bootstrap ## compile every file that sees libtorch on its own (the preset `dev` does the others)
	$(call cmake,single-files,build-single,single_files)

format: ## clang-format over every source
	git ls-files -z --cached --others --exclude-standard '*.cc' '*.h' | xargs -0 -r clang-format -i

bench: bootstrap ## build the programs of bench/ into build/bench/
	$(call cmake,release,build,bench)

clean: ## remove every build folder
	rm -rf build build-dev build-single build-tsan build-fuzz
