# Everything a fresh machine with Rust needs: `make demo`, `make test`.
PLIANT := target/release/pliant
# What `pliant wrap` loads before programs; it is built with the program.
PRELOAD = $(dir $(PLIANT))libpliant_preload.so
# Built in half the time, a few percent slower.
QUICK := target/quick/pliant
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 1800
DAEMON_SOAK_SECONDS ?= 3600
PREFIX ?= /usr/local
# Installs Rust libraries as C libraries. This version needs Rust 1.95; 0.10.16 is the last that takes 1.88.
CARGO_C_VERSION ?= 0.10.24
# Looks at dependencies. Built without optimization, in a minute.
CARGO_DENY_VERSION ?= 0.20.2
DENY := target/tools/bin/cargo-deny
# Where `make python` installs the package and what its tests use.
PYTHON_ENV := target/python/env
PYTHON_READY := $(PYTHON_ENV)/ready
# The fuzz targets, and folders of scenarios that are inputs of one of them.
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_SCENARIOS := $(addprefix ../,$(shell cat fuzz/scenarios.txt))

.PHONY: all demo python python-surface torch test lint deny doc reproduce digests conformance performance bench bench-net bench-objects bench-daemon testbed kafka kafka-figures programs proof fuzz soak soak-daemon install deb rpm install-c test-c \
	release clean

all: release

release: $(PLIANT)

# cargo itself decides what is stale.
.PHONY: $(PLIANT)
$(PLIANT):
	cargo build --release --locked --package pliant-cli --package pliant-preload

.PHONY: $(QUICK)
$(QUICK):
	cargo build --profile quick --locked --package pliant-cli --package pliant-preload

## A leaf-spine under four queue plans, then a real file over UDP loopback by DCTCP and by CUBIC.
demo: $(QUICK)
	bench/demo.sh $(QUICK)

## What CI runs: format, lints, dependencies, documentation, every test, the papers' claims that are quick to hold.
test: lint deny doc python-surface
	cargo test --workspace --locked
	$(MAKE) reproduce

lint:
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

## The dependencies' licences, sources, duplicates, and advisories against them where the data base can be fetched or is there
## already (deny.toml). Installs cargo-deny below target/ the first time.
deny: $(DENY)
	$(DENY) check --hide-inclusion-graph licenses bans sources
	@if $(DENY) fetch db > target/advisories.log 2>&1; then $(DENY) check advisories; \
		else echo "the data base of advisories is not at hand: target/advisories.log"; fi

$(DENY):
	cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --debug --root target/tools

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

## The Python package without its compiled module, by the standard library alone: the stub against the Rust sources, imports, and
## what the guide and the notebooks use. `make python` has the rest.
python-surface:
	@if python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then python3 -B -S python/tests/surface.py; \
		else echo "there is no Python 3.10 or newer: the Python package is not compared with its stub"; fi

## The papers' claims that CI holds, against docs/reproduction.json: by the program that the tests build, as building the
## release takes longer than it saves. Of one package alone other features are asked of its dependencies: that would build them again.
reproduce:
	cargo build --quiet --locked --workspace --bins --tests
	target/debug/pliant reproduce --ci

## Every scenario's event digests, against bench/digests.txt: two minutes of processor time. `make test` holds a few of
## each transport.
digests: $(PLIANT)
	python3 bench/digests.py $(PLIANT) --record bench/digests.txt

## Packet-hops per CPU-second beside ns-3 and ns-2; installs both on Debian. Writes target/bench.json.
bench: $(PLIANT)
	python3 bench/bench.py $(PLIANT)

## The same scenarios in ns-3, ns-2, the kernel, quinn and the simulator, side by side: docs/conformance.json and docs/conformance.md.
## Needs root and Debian, where it installs both simulators and ethtool; quinn is built, and pyarrow fetched, below target/. `--list` and
## `--only CASE` of the script for some of them.
conformance: $(QUICK)
	python3 bench/conformance/conformance.py $(QUICK)

## The tables of docs/performance.md, with their peers: an hour on a machine that does nothing else; needs root. PARTS names some
## of them (bench/performance.py --help).
PARTS ?=
performance: $(PLIANT)
	python3 bench/performance.py $(PLIANT) $(PARTS)

## The real path, encrypted and plain, beside kernel TCP and quinn: one table, one run.
bench-net: $(PLIANT)
	bench/real/run.sh $(PLIANT)

## An object from several sources of different rates, beside aria2 over HTTP: a quarter of an hour; needs root.
bench-objects: $(PLIANT)
	python3 bench/objects.py $(PLIANT)

## The daemon's forward door beside `ssh -L`, a QUIC forwarder and socat: rates, CPU, round trips, new connections and memory,
## in alternating rounds; needs root.
bench-daemon: $(PLIANT)
	python3 bench/daemon.py $(PLIANT)

## Unmodified programs through the daemon's doors, between two network namespaces, and the memory of 10,000 idle connections;
## needs root. Programs that are not installed are left out.
programs: $(QUICK)
	python3 bench/programs.py $(QUICK) --record docs/programs.json

## A foreground beside a background under moving load: the daemon's doors beside rclone's own limit, trickle, htb and low DSCPs,
## between network namespaces; needs root, redis-server, rclone, curl and Python with venv (Debian: python3-venv); fetches matplotlib.
## Rows of trickle, restic and rsync are left out where these are not installed. Writes docs/proof.json, docs/proof.svg and the tables of
## docs/daemon.md. PROOF_RATES are the links in Mbit/s: with steps of 30 s each takes half an hour, so all take an hour and a half. At
## 1000 nothing else should run on the machine, nor should it have less than two processors. PROOF_TRANSPORT names others than the
## script's.
PROOF_STEP ?= 30
PROOF_RATES ?= 1000 100 20
PROOF_TRANSPORT ?=
PROOF_ENV := target/proof/env
proof: $(QUICK) $(PROOF_ENV)/ready
	$(PROOF_ENV)/bin/python bench/proof.py $(QUICK) --step $(PROOF_STEP) $(addprefix --rate ,$(PROOF_RATES)) \
		$(addprefix --transport ,$(PROOF_TRANSPORT)) \
		--record docs/proof.json --write-docs

$(PROOF_ENV)/ready: bench/proof_requirements.txt
	python3 -m venv $(PROOF_ENV)
	$(PROOF_ENV)/bin/pip install -q -r bench/proof_requirements.txt
	touch $@

## The scenarios of experiments/testbed on this machine's network namespaces, beside the simulator; needs root. Writes
## docs/testbed.json, which `pliant reproduce --write-docs` takes into the document.
testbed: $(PLIANT)
	$(PLIANT) testbed record --real-time

## Apache Kafka, Apache Flink and unmodified clients through a Kafka door of the daemon, beside the same without it. Needs
## Java 17, Maven, Node.js and Python with venv (Debian: openjdk-17-jdk-headless maven npm python3-venv) and Go 1.26; fetches
## brokers and clients below target/. Rewritten batches go through Kafka's own library. KAFKA_DATA is the folder of the tables that
## Flink reads; without it numbers are drawn.
## What comes of it is target/kafka/record.json; KAFKA_RECORD=docs/kafka.json KAFKA_PAGE=docs/kafka.md puts it there.
KAFKA_DATA ?=
KAFKA_RECORD ?= target/kafka/record.json
KAFKA_PAGE ?=
kafka: $(QUICK) target/kafka/ready
	for brokers in 1 3; do target/kafka/venv/bin/python bench/kafka/run.py $(QUICK) target/kafka --brokers $$brokers \
		--record target/kafka/brokers$$brokers.json || exit 1; done
	target/kafka/venv/bin/python bench/kafka/batches.py target/kafka --record target/kafka/batches.json
	for what in lossy clients; do target/kafka/venv/bin/python bench/kafka/$$what.py $(QUICK) target/kafka \
		--record target/kafka/$$what.json || exit 1; done
	target/kafka/venv/bin/python bench/kafka/flink.py $(QUICK) target/kafka $(addprefix --data ,$(KAFKA_DATA)) \
		--record target/kafka/flink.json
	python3 bench/kafka/record.py target/kafka $(KAFKA_RECORD) $(KAFKA_PAGE)

## Figures 9 and 10 of ATP's paper with Kafka and Flink through a switch that drops; needs root, and the tables of KAFKA_DATA. Half
## an hour. Writes docs/kafka_figures.json, the tables of docs/kafka.md and experiments/atp/measured, over which
## `pliant reproduce atp fig09` and `fig10` are.
kafka-figures: $(QUICK) target/kafka/ready
	target/kafka/venv/bin/python bench/kafka/figures.py $(QUICK) target/kafka --data $(KAFKA_DATA) --record docs/kafka_figures.json
	target/kafka/venv/bin/python bench/kafka/figures.py --write docs/kafka_figures.json experiments docs/kafka.md

target/kafka/ready: bench/kafka/pom.xml bench/kafka/flink/pom.xml bench/kafka/flink/Means.java bench/kafka/requirements.txt \
		$(wildcard bench/kafka/go/*.* bench/kafka/go/relay/* bench/kafka/js/*)
	mkdir -p target/kafka/js
	mvn -q -B -f bench/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory=$(CURDIR)/target/kafka/jars
	mvn -q -B -f bench/kafka/flink/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory=$(CURDIR)/target/kafka/flink-jars
	javac -cp 'target/kafka/flink-jars/*' -d target/kafka/flink-classes bench/kafka/flink/Means.java
	cd bench/kafka/go && go build -o $(CURDIR)/target/kafka/go-clients . && go build -o $(CURDIR)/target/kafka/go-relay ./relay
	cp bench/kafka/js/* target/kafka/js
	cd target/kafka/js && npm ci --silent --no-audit --no-fund
	python3 -m venv target/kafka/venv
	target/kafka/venv/bin/pip install -q -r bench/kafka/requirements.txt
	touch $@

## The Python package, built and installed in an environment below target/: formats, types, stubs against the module, examples,
## tests and notebooks (docs/python.md). Needs Python 3.10 or newer with venv (Debian: python3-venv); fetches what the tests use
## the first time.
python: $(QUICK) $(PYTHON_READY)
	cd crates/python && cargo fmt -- --check && cargo clippy --locked --target-dir ../../target/python/build -- -D warnings
	rm -rf target/python/wheels
	$(PYTHON_ENV)/bin/maturin build --quiet --locked --profile quick --target-dir target/python/build \
		--interpreter $(PYTHON_ENV)/bin/python --out target/python/wheels
	$(PYTHON_ENV)/bin/pip install -q --no-deps --force-reinstall target/python/wheels/pliant-*.whl
	$(PYTHON_ENV)/bin/ruff check python
	$(PYTHON_ENV)/bin/ruff format --check python
	cd target/python && env/bin/mypy --config-file ../../pyproject.toml && env/bin/stubtest pliant._pliant
	PLIANT_COMMAND=$(QUICK) $(PYTHON_ENV)/bin/pytest --pyargs pliant python/tests

## What `make python` leaves out, since torch is large: the tests of pliant.torch with torch, and training by gloo and by the bounded
## all-reduce side by side, which writes docs/torch.json and the tables of docs/torch.md; ten minutes; needs root.
TORCH_ENV := target/python/torch-env
torch: $(QUICK) $(TORCH_ENV)/ready
	$(TORCH_ENV)/bin/maturin build --quiet --locked --profile quick --target-dir target/python/build \
		--interpreter $(TORCH_ENV)/bin/python --out target/python/torch-wheels
	$(TORCH_ENV)/bin/pip install -q --no-deps --force-reinstall target/python/torch-wheels/pliant-*.whl
	$(TORCH_ENV)/bin/pytest --pyargs pliant.torch python/tests/test_torch.py python/tests/test_torch_arithmetic.py
	rm -f target/torch.json
	$(TORCH_ENV)/bin/python bench/training/run.py $(QUICK) $(TORCH_ENV)/bin/python --record target/torch.json --rounds 2
	cp target/torch.json docs/torch.json
	$(TORCH_ENV)/bin/python bench/training/run.py $(QUICK) $(TORCH_ENV)/bin/python --record docs/torch.json --rounds 2 --write-docs

$(TORCH_ENV)/ready: python/tests/torch-requirements.txt
	python3 -m venv $(TORCH_ENV)
	$(TORCH_ENV)/bin/pip install -q -r $<
	touch $@

$(PYTHON_READY): python/tests/requirements.txt
	python3 -m venv $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/pip install -q -r $<
	touch $@

## Each fuzz target for FUZZ_SECONDS; needs nightly Rust and cargo-fuzz. `make test` replays the corpora and some thousand
## random changes of them on stable (crates/cli/tests/fuzz.rs).
fuzz:
	cd fuzz && for target in $(FUZZ_TARGETS); do \
		mkdir -p artifacts/found/$$target || exit 1; \
		more=; [ $$target != scenario_parser ] || more="$(FUZZ_SCENARIOS)"; \
		cargo +nightly fuzz run $$target artifacts/found/$$target corpus/$$target $$more -- \
			-max_total_time=$(FUZZ_SECONDS) || exit 1; done

## The real runtime for SOAK_SECONDS through a software switch with faults, every transport in turn, beside hostile peers with
## and without the key; needs root. Fails if a transfer does, or if a process that stays needs more and more memory.
soak: $(PLIANT)
	python3 bench/soak.py $(PLIANT) --seconds $(SOAK_SECONDS)

## Two daemons for DAEMON_SOAK_SECONDS through such a switch, with a link that fails, requests through every door, connections that stay,
## objects that come, change and go, Kafka if `make target/kafka/ready` was there before, a third daemon that is killed, and a stranger who
## attacks; needs root. Fails if a connection does, if other bytes come, or if memory or descriptors grow.
soak-daemon: $(PLIANT)
	$(or $(wildcard target/kafka/venv/bin/python),python3) bench/daemon_soak.py $(PLIANT) --kafka target/kafka --seconds $(DAEMON_SOAK_SECONDS)

## The program below PREFIX with the preload library, manual pages and completions for bash, zsh and fish. DESTDIR as usual. Builds nothing,
## so that root need not: `make release` first.
install:
	test -x $(PLIANT) -a -f $(PRELOAD) || { echo "there is no $(PLIANT): \`make release\` first" >&2; exit 1; }
	install -D -m 755 $(PLIANT) $(DESTDIR)$(PREFIX)/bin/pliant
	install -D -m 644 $(PRELOAD) $(DESTDIR)$(PREFIX)/lib/pliant/libpliant_preload.so
	$(PLIANT) man $(DESTDIR)$(PREFIX)/share/man/man1
	mkdir -p $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	$(PLIANT) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pliant
	$(PLIANT) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pliant
	$(PLIANT) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pliant.fish

## What `make install` writes, as a Debian package for this machine's processor: target/debian/pliant_VERSION_ARCH.deb.
deb: $(PLIANT)
	packaging/deb.sh $(PLIANT)

## The same as an RPM package: target/rpm/ARCH/pliant-VERSION-1.ARCH.rpm.
rpm: $(PLIANT)
	packaging/rpm.sh $(PLIANT)

## The C library below PREFIX: header, shared and static library, pkg-config file (docs/c.md). DESTDIR as usual.
install-c:
	command -v cargo-cinstall > /dev/null || cargo install cargo-c --locked --version $(CARGO_C_VERSION)
	cargo cinstall --locked --package pliant-ffi --prefix $(PREFIX) $(if $(DESTDIR),--destdir $(DESTDIR)) $(CINSTALL)

## The C example against an installation in a temporary folder, shared and static.
test-c:
	crates/ffi/tests/install.sh

clean:
	cargo clean
