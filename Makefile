# What the project is checked with. `make ci` is all that the pipeline runs (.ci/run).

CARGO ?= cargo
# cargo-deny: one on the PATH, or the one that .ci/run installs.
DENY ?= $(firstword $(shell command -v cargo-deny 2>/dev/null) $(wildcard target/tools/deny/bin/cargo-deny))

.PHONY: ci fmt-check clippy test test-epoll deny advisories demo planted mutants real sdk
.NOTPARALLEL:

ci: fmt-check clippy test test-epoll deny
	@echo "==> ci: all passed"

fmt-check:
	@echo "==> fmt-check: the layout of the code"
	$(CARGO) fmt --all --check

clippy:
	@echo "==> clippy: the lints, warnings refused"
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

test:
	@echo "==> test: everything, on io_uring where the kernel allows it"
	$(CARGO) test --workspace

test-epoll:
	@echo "==> test-epoll: the integration tests on the epoll driver"
	BATON_TEST_DRIVER=epoll $(CARGO) test --test '*'

# Needs no network. Without cargo-deny it is skipped, and says so.
deny:
	@echo "==> deny: licences, sources and duplicates of the dependencies"
	@if [ -n "$(DENY)" ]; then \
		"$(DENY)" check bans licenses sources; \
	else \
		echo "deny SKIPPED: cargo-deny is not installed (cargo install --locked cargo-deny)"; \
	fi

# Known vulnerabilities; fetches the RustSec database from GitHub.
advisories:
	"$(or $(DENY),cargo-deny)" check advisories

# A scripted upstream that dies half-way, and Baton in front of it.
demo:
	$(CARGO) run --release -- demo

# Bugs planted one at a time in a copy of the exchange: the simulator must catch each. Four minutes.
planted:
	bash tests/planted/run.sh

# Whether the tests notice a changed operator; an hour or two. MUTANTS="--shard 0/4" takes every fourth.
mutants:
	bash tests/mutants/run.sh $(MUTANTS)

# Two real model servers and the official SDK; installs 270 MB below tests/real/.env.
real:
	bash tests/real/run.sh

# The official SDKs, for Python and for Node, against scripted upstreams; installs 90 MB below tests/real/.env.
sdk:
	bash tests/real/sdk.sh
