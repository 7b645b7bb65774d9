# Sluice: every task of a developer is a target here; `make help` lists them.
export GOTOOLCHAIN := go1.27.3
SHELL := /bin/bash
CACHE := $(or $(SLUICE_TEST_CACHE),$(shell go env GOCACHE)/sluice)
LINT_VERSION := v2.15.0
LINT := $(CACHE)/golangci-lint-$(LINT_VERSION)-$(GOTOOLCHAIN)/golangci-lint
FUZZTIME ?= 10s

.PHONY: help build demo test unit lane lint check golden fuzz bench cluster e2e generate fmt

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

build: ## build bin/sluice
	@echo "building bin/sluice with $(GOTOOLCHAIN)"
	@CGO_ENABLED=0 go build -trimpath -o bin/sluice ./cmd/sluice

demo: build ## start three backends and Sluice on example manifests, print what to try; Ctrl-C ends it
	@go run ./internal/demo -sluice bin/sluice

test: unit lane ## run all tests

unit: ## run the tests that need nothing but Go, with the race detector
	@echo "go vet"; go vet ./...
	@echo "testing with the race detector"; go test -race -timeout 20m ./...
	@echo "testing what the race detector would falsify (allocation counts)"; go test -timeout 10m -run 'Alloc' ./canon ./telemetry ./proxy/...

lane: bin/cluster ## run the tests against a real Kubernetes control plane, which is built once (some 12 minutes)
	@bin/cluster --prepare
	@echo "go vet, test/"; go vet -C test ./...
	@echo "testing against a real Kubernetes control plane"; go test -C test -v -p 1 -count=1 -timeout 30m ./...

lint: $(LINT) ## run golangci-lint (built with the same toolchain, once)
	@echo "golangci-lint"; $(LINT) run ./...
	@echo "golangci-lint, test/"; cd test && $(LINT) run -c ../.golangci.yml ./...

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION): some minutes, once"
	@mkdir -p $(dir $@) && GOBIN=$(dir $@) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

check: lint test ## what CI runs

golden: ## rewrite the golden files of the tests
	@go test ./model ./control/translate/native ./control/translate/ingress ./cmd/sluice -update

fuzz: ## run every fuzz target for FUZZTIME
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	  echo "fuzzing $$p $$f for $(FUZZTIME)"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

e2e: ## only the tests that run the built binary
	@echo "end to end"; go test -count=1 -v -timeout 20m ./internal/e2e

# Where make was called, also with -C, for which make turns on w: COMMAND runs there.
CALLER = $(if $(findstring w,$(firstword -$(MAKEFLAGS))),$(or $(PWD),$(CURDIR)),$(CURDIR))

cluster: build bin/cluster ## run a command against a real control plane: ARGS='[--image NAME=COMMAND]… [FLAGS OF SLUICE] -- COMMAND…'
	@cd "$(CALLER)" && "$(CURDIR)/bin/cluster" --sluice "$(CURDIR)/bin/sluice" $(ARGS)

.PHONY: bin/cluster
bin/cluster:
	@go build -C test -o ../bin/cluster ./cmd/cluster

bench: build ## measure against nginx, HAProxy and a plain net/http proxy (which it needs, and wrk), then with ten thousand Ingresses of a real API server
	@go run ./bench -sluice bin/sluice
	@go build -C test -o ../bin/scale ./cmd/scale && { bin/scale -sluice bin/sluice || [ $$? = 77 ]; }

generate: ## rewrite generated files
	@go generate ./...

fmt: $(LINT) ## format the code
	@$(LINT) fmt ./...
