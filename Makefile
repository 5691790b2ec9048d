# `make help` lists what can be made.

ARGS ?=

.PHONY: help run test check bench soak release

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: ## build and start the server with demo data; ARGS="…" go to `entourage serve`
	cargo build --release -p entourage
	./target/release/entourage serve --demo $(ARGS)

test: check ## check, then every suite
	scripts/test

check: ## format, lints, dependencies
	@scripts/suite format cargo fmt --check
	@scripts/suite lints cargo clippy --workspace --all-targets --profile ci -- -D warnings
	@scripts/suite dependencies scripts/deny check bans licenses sources

bench: ## figures, with machine and commit; ARGS="…" go to the bench
	cargo build --release -p entourage
	cargo run --release -p entourage-bench -- $(ARGS)

soak: ## the long versions of the suites
	ENTOURAGE_SOAK=1 scripts/test

release: ## target/dist: the binary that is shipped, and its symbols in a file beside it
	scripts/release
