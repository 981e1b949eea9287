# Everything a fresh machine with Rust needs: `make demo`, `make test`.
PLIANT := target/release/pliant
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 1800
# Scenarios that stand elsewhere, right and wrong: inputs of the fuzz target, too (as in crates/cli/tests/fuzz.rs).
SCENARIOS := $(addprefix ../,crates/cli/tests/broken docs/guide $(addprefix experiments/,testbed atp/scenarios \
	flexpass/scenarios lowprio/scenarios))

.PHONY: all demo test lint doc reproduce bench bench-net testbed fuzz soak release clean

all: release

release: $(PLIANT)

# cargo itself decides what is stale.
.PHONY: $(PLIANT)
$(PLIANT):
	cargo build --release --locked --package pliant-cli

## A leaf-spine under four queue plans, then a real file over UDP loopback by DCTCP and by CUBIC.
demo: $(PLIANT)
	bench/demo.sh $(PLIANT)

## What CI runs: format, lints, documentation, every test, the papers' claims that are quick to hold.
test: lint doc
	cargo test --workspace --locked
	$(MAKE) reproduce

lint:
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

## The papers' claims that CI holds, against docs/reproduction.json.
reproduce: $(PLIANT)
	$(PLIANT) reproduce --ci

## Packet-hops per CPU-second beside ns-3 and ns-2; installs both on Debian. Writes target/bench.json.
bench: $(PLIANT)
	python3 bench/bench.py $(PLIANT)

## The real path, encrypted and plain, beside kernel TCP and quinn: one table, one run.
bench-net: $(PLIANT)
	bench/real/run.sh $(PLIANT)

## The scenarios of experiments/testbed on this machine's network namespaces, beside the simulator; needs root. Writes
## docs/testbed.json, which `pliant reproduce --write-docs` takes into the document.
testbed: $(PLIANT)
	$(PLIANT) testbed record --real-time

## Each fuzz target for FUZZ_SECONDS; needs nightly Rust and cargo-fuzz. `make test` replays the corpora and some thousand
## random changes of them on stable (crates/cli/tests/fuzz.rs).
fuzz:
	cd fuzz && for target in wire_codec scenario_parser distribution_parser frame_parser switch_plan connection_parsers connection_endpoint; do \
		mkdir -p artifacts/found/$$target || exit 1; \
		more=; [ $$target != scenario_parser ] || more="$(SCENARIOS)"; \
		cargo +nightly fuzz run $$target artifacts/found/$$target corpus/$$target $$more -- \
			-max_total_time=$(FUZZ_SECONDS) || exit 1; done

## The real runtime for SOAK_SECONDS through a software switch with faults, every transport in turn; needs root. Fails if a
## transfer does, or if a process that stays needs more and more memory.
soak: $(PLIANT)
	python3 bench/soak.py $(PLIANT) --seconds $(SOAK_SECONDS)

clean:
	cargo clean
