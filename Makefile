# What one does here. "make ci" is what has to pass; CONTRIBUTING.md says more.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

STATICCHECK := go tool -modfile=$(CURDIR)/tools/go.mod staticcheck
FUZZTIME ?= 30s
# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race)
# Packages whose tests time what servers and other processes do: each has the machine to itself.
ALONE := ./cmd/sluice ./sim/broker ./sim/processes ./store/file ./store/hazelcast ./store/redis
# All tests, of this module and of the one with the clients.
TESTS = bad=0; \
	go test $(RACE) -timeout 20m -json $$(go list ./... | grep -vxF "$$(go list $(ALONE))") || bad=1; \
	go test $(RACE) -p 1 -timeout 20m -json $(ALONE) || bad=1; \
	(cd clients && go test $(RACE) -timeout 10m -json ./...) || bad=1; \
	exit $$bad

.PHONY: help run test ci bench fuzz sim fmt fmt-check vet staticcheck generate examples bench-check services versions test-count

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## serve with the built-in configuration: :8080, and 127.0.0.1:9090 to look at
	go run ./cmd/sluice serve

test: ## all tests with the race detector; needs no network, and says what it left out
	{ $(TESTS); } | go run ./internal/testcount

ci: ## everything that has to pass, step by step
	@.ci/steps services fmt-check vet staticcheck generate examples bench-check fuzz sim versions test-count

bench: ## sluice beside its peers, as a table of ratios; QUICK=1 for two minutes
	cd bench && go run ./cmd/table $(if $(QUICK),-quick)

fuzz: ## every fuzz target for FUZZTIME (default 30s)
	.ci/fuzz $(FUZZTIME)

sim: ## the simulation; SEED=n repeats a run exactly
	go test $(RACE) -count=1 -v -run '^TestSim' ./sim -args $(if $(SEED),-seed=$(SEED))

fmt: ## format
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

fmt-check:
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	[ -z "$$bad" ] || { echo "not formatted, run make fmt:"; echo "$$bad"; exit 1; }

vet: ## go vet
	go vet ./...
	cd bench && go vet ./...
	cd clients && go vet ./...
	cd llm/estimate/corpus && go vet ./...

staticcheck: ## staticcheck, pinned in tools/go.mod
	$(STATICCHECK) ./...
	cd bench && $(STATICCHECK) ./...
	cd clients && $(STATICCHECK) ./...
	cd llm/estimate/corpus && $(STATICCHECK) ./...

generate: ## run the generators; fails if that changes a file
	@state() { git status --porcelain; git diff | cksum; }; \
	before=$$(state); go generate ./...; \
	[ "$$before" = "$$(state)" ] || { echo "generated files were stale; commit these:"; git status --short; exit 1; }

examples: ## check every file of examples
	.ci/examples

bench-check: ## the benchmarks compile and their table is right
	cd bench && go test -run '^Test' ./...

services: ## install the real servers that tests drive (as root on Debian), and start each once
	.ci/services

versions: ## the suite of the Redis store on other versions: 6.2, 8.2, Valkey
	.ci/versions

# The race detector allocates by itself: what must not allocate is checked without it.
test-count:
	GOPROXY=off go test -run 'Allocat' . ./store/memory
	export GOPROXY=off; { $(TESTS); } | go run ./internal/testcount
