# The only driver. `make demo` is the main job, `make test` what CI runs.
.DEFAULT_GOAL := help
.PHONY: help demo build docs subjects test prepare tests page-tests reader-tests runtimes go-tests test-long corpus bench bench-alloc bench-verdict fuzz fuzz-guests fuzz-guests-everywhere real-short real-programs miri loom kernels dist check-packages bpf bpf-check lint deny check-aarch64 clean

CARGO ?= cargo
# Tests preload the probe by themselves. Where all of this runs in a container with a seccomp filter, it may be there too.
export HIGHWATER_PROBE_FILTERS ?= $(shell sed -n 's/^Seccomp_filters:[^0-9]*//p' /proc/self/status)
RUN_FLAGS ?=

help:
	@echo 'make demo       build, run experiments/relay.toml in its short form, print the verdict'
	@echo 'make test       every test that fits CI'
	@echo 'make test-long  real programs, soaks, slow allocators, in parts; goes on where it stopped'
	@echo 'make real-programs  real programs plain, with the probe and under attachments'
	@echo 'make bench      benchmarks against peers'
	@echo 'make corpus     explain and stalls on programs with a known truth, scored; as root, two hours'
	@echo 'make fuzz       the readers under libFuzzer, FUZZ_SECONDS each'
	@echo 'make fuzz-guests  generated programs with the probe and without, GUEST_SECONDS long'
	@echo 'make fuzz-guests-everywhere  the same over other allocators, linked in too, and under explain and stalls; as root'
	@echo 'make miri       the sampler under Miri; needs a nightly toolchain with miri and rust-src'
	@echo 'make loom       models of the sampler: every interleaving of a few threads'
	@echo 'make kernels    eBPF programs and every command on Linux 5.10, 6.1, 6.12 and the newest, in an emulator'
	@echo 'make dist       static binaries, .deb, .rpm, .apk, wheels and an OCI image, for x86_64 and aarch64'
	@echo 'make check-packages  installs what make dist made in roots of their own, uses it, removes it; as root'
	@echo 'make bpf        compile the eBPF programs into crates/bpf/objects, which are committed'
	@echo 'make docs       the book: target/book/index.html'
	@echo 'make lint       rustfmt and clippy'
	@echo 'make deny       cargo-deny: licences, advisories, duplicates, sources'
	@echo 'make check-aarch64  type check for aarch64'

# The tool, the relay's load program, the relay itself.
build:
	$(CARGO) build --release --locked

# The manual as web pages; installs the pinned mdbook when it is missing: some minutes of one core, once.
MDBOOK_VERSION := 0.5.4
docs:
	@[ "$$(mdbook --version 2>/dev/null)" = "mdbook v$(MDBOOK_VERSION)" ] || \
		nice $(CARGO) install --locked mdbook@$(MDBOOK_VERSION)
	mdbook build docs
	@echo 'target/book/index.html'

subjects:
	subjects/relay/build
	subjects/fibre/build

corpus: build
	corpus/memory/run.py target/release/highwater --jobs 3
	corpus/stalls/run.py target/release/highwater

demo: build
	subjects/relay/build
	target/release/highwater run experiments/relay.toml $(RUN_FLAGS)

test:
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target prepare
	@.ci/count-skipped $(MAKE) --no-print-directory tests

# Most of it is fetched: side by side with what is compiled.
prepare: subjects bpf-check page-tests reader-tests runtimes loom

tests: go-tests
	corpus/check.py
	$(CARGO) test --workspace --locked --no-fail-fast
	$(CARGO) test -p highwater-alloc --features meter --locked --no-fail-fast
	$(CARGO) test -p highwater-alloc --features jemalloc,meter --locked --no-fail-fast
	subjects/relay/build test --summary all
	$(MAKE) --no-print-directory real-short

# What drives the browser; without npm the page's tests skip and say so.
page-tests:
	@if command -v npm >/dev/null; then npm ci --silent --prefix highwater/tests/page; fi

# The strict reader of OpenMetrics that pages are held to; without pip its test skips and says so.
reader-tests:
	@PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --upgrade --target target/python \
		prometheus-client==0.26.0 || echo 'no pip, or no index to ask'

# Versions of Node.js, the JDK and CPython that the readers of managed heaps are tested with.
runtimes:
	@crates/runtimes/tests/fetch target/runtimes

# The Go modules: slab and its subject. Without go they skip and say so.
go-tests:
	slab/check short

# What CI leaves out: tests that are ignored for their length, in parts of 30 minutes at most. Run it again to go on;
# PART=NAME runs one part (target/long has a log for each).
test-long:
	@.ci/long

# Real programs do the same with highwater as without it: seven of them, in the gate.
real-short:
	$(CARGO) test --workspace --locked --no-run
	$(CARGO) build --locked -p highwater-probe
	@if command -v python3 >/dev/null; then guests/real/run --short; else echo 'SKIPPED real programs: no python3'; fi

# All of them, 50 attachments each; run again where it stopped (exit status 3 of the runner).
REAL_SECONDS ?= 1500
REAL_ALLOCATOR ?=
REAL_FLAGS ?=
real-programs:
	$(CARGO) build --release --locked -p highwater -p highwater-probe
	mkdir -p target/real
	guests/real/run --highwater target/release/highwater --probe target/release/libhighwater_probe.so \
		--store target/real/$$(git rev-parse --short HEAD)$(REAL_ALLOCATOR).jsonl --seconds $(REAL_SECONDS) \
		$(if $(REAL_ALLOCATOR),--allocator $(REAL_ALLOCATOR)) $(REAL_FLAGS)

bench: build subjects
	$(CARGO) bench --workspace --locked

# The switch and the meter under every allocator; needs a C++ compiler, and valgrind for the instruction counts.
bench-alloc:
	bench/overhead/alloc/run

# Error rates of the verdicts on seeded families of corpus/series; three to five minutes on two cores.
bench-verdict:
	$(CARGO) run --release --locked --example bench_verdict -- --seed 1 --each 100

# The readers under libFuzzer, from the good inputs of the seeded fuzz test. The compiler's coverage
# flags are open to the stable compiler by RUSTC_BOOTSTRAP only. A quarter of an hour to build on one core.
FUZZ_SECONDS ?= 60
fuzz:
	@command -v cargo-fuzz >/dev/null || $(CARGO) install cargo-fuzz@0.13.2 --locked
	HIGHWATER_FUZZ_CORPUS=$(CURDIR)/target/fuzz-corpus \
		$(CARGO) test -p highwater --locked --test fuzz -- --ignored --exact corpus
	cd highwater && export RUSTC_BOOTSTRAP=1 && for target in $$(cargo fuzz list); do \
		cargo fuzz run --sanitizer none --target-dir ../target/fuzz $$target ../target/fuzz-corpus/$$target -- \
			-max_total_time=$(FUZZ_SECONDS) -timeout=30 -rss_limit_mb=2048 || exit 1; \
	done

# Generated C and C++ programs must do the same with the probe as without. A failing one is kept in target/guests.
# GUEST_SEED is the first seed; a failing program's own seed with --programs 1 repeats it.
GUEST_SECONDS ?= 60
GUEST_SEED ?= 1
GUEST_FLAGS ?=
fuzz-guests:
	$(CARGO) build --release --locked -p highwater-probe -p highwater-guests
	target/release/highwater-guests --seed $(GUEST_SEED) --seconds $(GUEST_SECONDS) --jobs $$(nproc) \
		--probe target/release/libhighwater_probe.so --keep target/guests $(GUEST_FLAGS)

# Every arm: over glibc, jemalloc, mimalloc 2 and 3, tcmalloc and musl, preloaded or part of the program, with the probe
# and while explain and stalls are attached. GUEST_FLAGS=--only=TEXT chooses arms by their names.
fuzz-guests-everywhere:
	$(CARGO) build --release --locked -p highwater -p highwater-probe -p highwater-guests
	CARGO=$(CARGO) guests/fetch target/guests-fetched
	$(MAKE) --no-print-directory fuzz-guests \
		GUEST_FLAGS='--highwater target/release/highwater --fetched target/guests-fetched $(GUEST_FLAGS)'

# The logic that the probe and highwater-alloc share. A target folder each: the flags differ from all other builds.
miri:
	MIRIFLAGS=-Zmiri-ignore-leaks $(CARGO) +nightly miri test -p highwater-sampler --lib --locked --target-dir target/miri

loom:
	RUSTFLAGS='--cfg loom' $(CARGO) test -p highwater-sampler --lib --locked --target-dir target/loom

kernels:
	.ci/kernels

# For one processor: DIST=x86_64.
DIST ?=
dist:
	packaging/dist $(DIST)

check-packages:
	packaging/check

# Installing needs no compiler for eBPF: the objects are committed, and CI compares them with their sources.
bpf:
	crates/bpf/programs/build

bpf-check:
	crates/bpf/programs/build check

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# CI checks all but advisories by highwater/tests/licences instead, with nothing to install.
deny:
	.ci/deny

# The bundled C (SQLite, ring) wants a compiler for the target even for a check.
check-aarch64: subjects
	rustup target add aarch64-unknown-linux-gnu
	CC_aarch64_unknown_linux_gnu=$(CURDIR)/.ci/cc-aarch64 AR_aarch64_unknown_linux_gnu=ar \
		$(CARGO) check --workspace --locked --target aarch64-unknown-linux-gnu

clean:
	$(CARGO) clean
