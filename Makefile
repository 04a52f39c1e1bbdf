# The only driver. `make demo` is the main job, `make test` what CI runs.
.DEFAULT_GOAL := help
.PHONY: help demo build subjects test test-long bench bench-verdict lint check-aarch64 clean

CARGO ?= cargo
# Two jobs at least: a single-core build of the demo would not fit its time.
RUN_FLAGS ?=

help:
	@echo 'make demo       build, run experiments/relay.toml in its short form, print the verdict'
	@echo 'make test       every test that fits CI'
	@echo 'make test-long  real programs, soaks, slow allocators'
	@echo 'make bench      benchmarks against peers'
	@echo 'make lint       rustfmt, clippy, the check for aarch64'

# The tool, the relay's load program, the relay itself.
build:
	$(CARGO) build --release --locked

subjects:
	subjects/relay/build

demo: build subjects
	target/release/highwater run experiments/relay.toml $(RUN_FLAGS)

test: subjects
	$(CARGO) test --workspace --locked --no-fail-fast
	subjects/relay/build test

test-long: build subjects
	$(CARGO) test --workspace --locked --no-fail-fast -- --include-ignored

bench: build subjects
	$(CARGO) bench --workspace --locked

# Error rates of the verdicts on seeded families; about ten minutes of one core.
bench-verdict:
	$(CARGO) run --release --locked --example bench_verdict -- --seed 1 --each 100

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

clean:
	$(CARGO) clean
