# The only entrances. Each prints what it did in a last line that a person can read.
.PHONY: run test format conformance bench bench-membership bench-raft soak fuzz system environment

BIN := .venv/bin

environment:
	@python=$$(tools/find-python) && "$$python" tools/environment.py

run: environment
	@exec $(BIN)/adsum agent -dev

test: environment
	@tools/test

format: environment
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet . && echo "formatted"

conformance: environment
	@$(BIN)/python -m tests.conformance

bench: environment
	@$(BIN)/python -m tests.bench

bench-membership: environment
	@$(BIN)/python -m tests.bench.membership

bench-raft: environment
	@$(BIN)/python -m tests.bench.raft

soak: environment
	@$(BIN)/python -m adsum.testing.raft_swarm --seeds $${SEEDS:-2000}
	@$(BIN)/python -m adsum.testing.founding_swarm --seeds $${SEEDS:-2000}
	@$(BIN)/python -m adsum.testing.key_swarm --seeds $$(( $${SEEDS:-2000} / 4 ))
	@$(BIN)/python -m adsum.testing.session_swarm --seeds $$(( $${SEEDS:-2000} / 2 ))
	@$(BIN)/python -m adsum.testing.lock_swarm --seeds $$(( $${SEEDS:-2000} / 8 ))
	@$(BIN)/python -m adsum.testing.lock_race --rounds $${SEEDS:-2000}
	@$(BIN)/python -m adsum.testing.host_accidents --seeds $$(( $${SEEDS:-2000} / 16 )) && echo "No seed failed."

fuzz: environment
	@$(BIN)/python -m tests.fuzz --minutes $${MINUTES:-10} --seed "$${SEED:-}" && echo "Nothing harmed an agent."

system: environment
	@$(BIN)/pytest -q -r s tests/system && echo "All system tests passed."
