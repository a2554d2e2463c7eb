# Everything here needs only Go; what needs a database or a broker gets it from `pulse dev` (see `make help`).

GO    ?= go
PULSE := $(GO) run ./cmd/pulse dev
TOOL  := $(GO) tool -modfile=.ci/tools/go.mod

# Narrow a run with these: make test PKG=./pulse/... ARGS='-run TestPublish -count=1'
PKG  ?= ./...
ARGS ?=
# How many inputs each fuzz target tries. Not a time: where that ends within an input, go test fails now and then.
FUZZ ?= 80000x

.DEFAULT_GOAL := help
.PHONY: help demo demo-migration test test-short lint generate check-generated api bench bench-go stress soak fuzz clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the example service with a database of its own.
	$(PULSE) -- $(GO) run ./examples/invoices

demo-migration: ## Move a topic from Kafka to Pulse under load, with servers of its own.
	$(PULSE) --kafka -- $(GO) run ./examples/migration

# One package at a time: they share the server, whose answers would take longer than their deadlines on a small machine.
test: ## Run go vet and all tests with the race detector, with a database and a Kafka broker of their own.
	$(PULSE) --kafka -- sh -c '$(GO) vet $(PKG) && exec $(GO) test -race -p 1 -timeout 30m $(ARGS) $(PKG)'

test-short: ## Run the tests that need no database.
	$(GO) test -short $(ARGS) $(PKG)

lint: ## Check the code with go vet, staticcheck, gofumpt and the rules of the house.
	$(GO) vet $(PKG)
	$(TOOL) staticcheck $(PKG)
	.ci/check-format $(TOOL) gofumpt
	.ci/check-house
	.ci/spec-table --check

generate: ## Write all generated files anew.
	$(GO) generate ./...
	.ci/spec-table

check-generated: ## Fail if a generated file is not up to date.
	.ci/check-generated $(GO)

api: ## List what the public packages export in api/, after a change that is meant.
	$(GO) test ./internal/apisurface -update

bench: ## Measure throughput, latency and the commands that an event costs (see docs/benchmarks.md).
	$(GO) run ./cmd/pulse bench $(ARGS)

bench-go: ## Run the Go benchmarks, with a database of their own.
	$(PULSE) -- $(GO) test -run '^$$' -bench . -benchmem $(ARGS) $(PKG)

stress: ## Show with 70,000 events over several processes that none is lost or handled twice.
	$(GO) run ./cmd/pulse stress $(ARGS)

soak: ## The same with random faults for ten minutes; ARGS='--soak 1h --seed 7' for others.
	$(GO) run ./cmd/pulse stress --soak 10m $(ARGS)

fuzz: ## Look for bytes that break the decoders, with as many inputs for each as FUZZ says.
	$(GO) test ./echoes -run '^$$' -fuzz '^FuzzDecode$$' -fuzztime $(FUZZ) -fuzzminimizetime 5x
	$(GO) test ./echoes/internal/everykind -run '^$$' -fuzz '^FuzzGenerated$$' -fuzztime $(FUZZ) -fuzzminimizetime 5x
	$(GO) test ./echoes/kafka/internal/wire -run '^$$' -fuzz '^FuzzDecode$$' -fuzztime $(FUZZ) -fuzzminimizetime 5x
	$(GO) test ./examples/webhooks/jsonbson -run '^$$' -fuzz '^FuzzDocument$$' -fuzztime $(FUZZ) -fuzzminimizetime 5x

clean: ## Remove built files. The servers in the user's cache directory stay.
	rm -rf bin dist
	find . -name '*.test' -type f -delete -o -name '*.prof' -type f -delete -o -name '*.out' -type f -delete
