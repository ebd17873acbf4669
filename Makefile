# What a person or a pipeline runs. Everything here is plain cargo underneath.

CARGO ?= cargo
SOAK_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help serve call test tools format lint doc tidy gen services unit pages book deny soak \
	suites sanitize fuzz bench mutate

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

serve: ## Start a server on this machine: anybody here may log in, data in ./data
	$(CARGO) run --profile serve --package stentor-cli --bin stentor -- \
		serve --allow-anonymous --data-dir data

PARTS = tools format lint doc tidy services unit pages
test: ## Everything that a change has to pass
	@for part in $(PARTS); do \
		begin=$$(date +%s); \
		$(MAKE) --no-print-directory $$part || exit; \
		echo "make $$part took $$(($$(date +%s) - begin)) s"; \
	done

# The interoperability tests use other people's clients; the script fetches them once.
tools:
	@if [ -f tests/install-tools.sh ]; then bash tests/install-tools.sh; fi

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --no-deps

tidy: ## Check the project's own rules (sizes, layers, links, …)
	$(CARGO) xtask tidy

services: ## Check that the hub compiles without any one of its services
	$(CARGO) xtask services

gen: ## Write the generated documents again
	$(CARGO) xtask gen

# The tests run the binary that this builds, in the same profile. It is built together with the tests:
# alone, it would have fewer features of some libraries, and most crates would be compiled twice.
BUILD = $(CARGO) build --workspace --bins --tests --examples
# Most tests wait for something most of their time.
RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
unit:
	$(BUILD)
	RUST_TEST_THREADS=$(RUST_TEST_THREADS) $(CARGO) test --workspace --no-fail-fast

pages: ## Run the commands of the pages below docs/ and compare what they print
	$(BUILD)
	$(CARGO) xtask pages

# Links to Markdown files beside docs/ lead to the files, which are not rendered.
book: ## Render the book below docs/ to book/ (needs mdBook)
	@if command -v mdbook >/dev/null 2>&1; then \
		mdbook build && \
		sed -i -E 's,(href="\.\./(README|CHANGELOG|CONTRIBUTING|ARCHITECTURE))\.html,\1.md,g' book/*.html && \
		echo "open book/index.html"; \
	else \
		echo "mdBook is not installed: read docs/README.md, or run 'cargo install mdbook' first"; \
		exit 1; \
	fi

deny: ## Check licences, bans and sources of dependencies (needs cargo-deny)
	$(CARGO) deny check licenses bans sources

suites: ## Run other projects' test suites, fetched as packages, against the built server
	$(CARGO) build --workspace
	python3 tests/suites/run.py

# Miri maps no files; the address sanitizer and the checks of the standard library watch instead.
# `--target` keeps the flag from build scripts; the feature is unstable, hence the bootstrap.
sanitize: ## Run the store's tests, unsafe code included, under the address sanitizer
	RUSTC_BOOTSTRAP=1 RUSTC_WRAPPER= RUSTFLAGS=-Zsanitizer=address $(CARGO) test \
		--package stentor-disk --package stentor-retained --lib --target-dir target/sanitize \
		--target $$(rustc -vV | sed -n 's/^host: //p')

mutate: ## Leave out rules of lasting sessions, and check that the simulation finds that
	$(CARGO) xtask mutate

soak: fuzz sanitize suites mutate ## Long fuzzing (SOAK_SECONDS per target), kill tests and storms
	STENTOR_SOAK=1 $(CARGO) test --workspace
	$(CARGO) test --release --workspace --lib

# cargo-fuzz needs a nightly toolchain, which not every machine has.
fuzz:
	@if $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then \
		for target in $$(cd fuzz && $(CARGO) +nightly fuzz list); do \
			echo "fuzzing $$target for $(SOAK_SECONDS) s"; \
			if (cd fuzz && $(CARGO) +nightly fuzz run "$$target" -- \
				-max_total_time=$(SOAK_SECONDS)); then found=no; else found=yes; fi; \
			case "$$target,$$found" in \
				*canary*,no) echo "$$target found nothing: the fuzzers are blind"; exit 1;; \
				*canary*,yes | *,no) ;; \
				*) exit 1;; \
			esac; \
		done; \
	else \
		echo "skipping the fuzzers: they need a nightly toolchain and cargo-fuzz"; \
	fi

# Static, without Rust's runtime: a mail server starts stentor-call for every message. For a server at
# calls:// it starts the other one, which has to be beside it or in PATH.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
call: ## Build stentor-call and stentor-call-tls as static binaries
	RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" \
		$(CARGO) build --profile call --package stentor-call --package stentor-call-tls \
		--target $(HOST)
	@echo "built target/$(HOST)/call/stentor-call"
	@echo "built target/$(HOST)/call/stentor-call-tls, which it needs for calls://"

bench: call ## Run a short benchmark suite, under five minutes; the report goes to target/bench.html
	$(CARGO) build --release --package stentor-cli --package stentor-bench
	target/release/stentor bench suite --quick --json target/bench.json --html target/bench.html
