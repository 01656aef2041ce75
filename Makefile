# Each target is one line; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
MODELS ?= $(addprefix examples/,tiny-chat.yaml minilm.yaml tiny-reranker.yaml tiny-classifier.yaml tiny-whisper.yaml tiny-vlm.yaml)
ARGS ?=
BIN := .venv/bin

.PHONY: help setup clients up check test lint fmt types generate unit contract integration e2e kubernetes bench bench-cluster soak fuzz images push cluster cluster-down clean

help: ## Show this list.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

setup: ## Make the virtual environment and install everything (done by the other targets too).
	@hack/setup

clients: ## Install the clients that the tests use, too.
	@hack/setup tests

up: setup ## Start Conch on MODELS (default: one model of every kind); Ctrl-C stops it. ARGS are passed to `conch up`.
	@exec $(BIN)/conch up $(foreach file,$(MODELS),-f $(file)) $(ARGS)

check: setup ## Check style, types and import rules, and run the unit and contract tests: about two minutes.
	@hack/check $(ARGS)

test: clients ## Run lint, types, import rules and every suite that this machine can run: about 65 minutes.
	@hack/test $(ARGS)

lint: setup ## Check style and import rules.
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

fmt: setup ## Rewrite the code in the project's format.
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

types: setup ## Check types.
	@$(BIN)/mypy && $(BIN)/mypy --explicit-package-bases tests/support/testkit bench && $(BIN)/mypy -p cluster -p images -p generate -p models

generate: setup ## Write the files that are made from the types: the CRD, the pages of its fields and of the chart.
	@PYTHONPATH=hack $(BIN)/python -m generate

unit: ## Run the tests of single modules.
contract: ## Run the tests of what the parts agree on: the chart, the definition, messages, pages.
integration: ## Run the tests of each process beside its real neighbours.
e2e: ## Run the tests with real clients against all of `conch up`.
kubernetes: ## Run the tests on a Kubernetes, which is made and removed if there is none.
unit contract integration e2e kubernetes: clients
	@$(BIN)/python -m pytest tests/$@ $(ARGS)

bench: setup ## Measure added latency, throughput and CPU against a direct gRPC client and nginx.
	@exec $(BIN)/python -m bench $(ARGS)

soak: setup ## Run what is too long for every change, most of it on a Kubernetes, and keep the result in docs/soak.md.
	@hack/soak $(ARGS)

fuzz: setup ## Play hostile callers, engines, tokenizers and gateways for MINUTES (30), with new examples each round.
	@MINUTES=$(MINUTES) SEED=$(SEED) hack/fuzz

bench-cluster: setup ## Measure on the cluster of `make cluster`: apply to first token, and the ingress' time per event.
	@exec $(BIN)/python -m bench.cluster

images: ## Build the images with docker, podman or buildah; ARGS may name some of them.
	@hack/images/build $(ARGS)

push: ## Build the images and bring them to REGISTRY=host/folder; writes .conch/images.yaml, values for helm.
	@$(if $(REGISTRY),,echo "make push: say where to, such as make push REGISTRY=registry.example.com/conch" >&2; exit 2)
	@CONCH_IMAGE_PREFIX=$(REGISTRY) hack/images/build --push .conch/images.yaml $(ARGS)

cluster: ## Start a Kubernetes with Conch and the example model on it; prints on stdout only what to export.
	@hack/cluster/cluster conch

cluster-down: ## Stop that Kubernetes and leave nothing behind.
	@hack/cluster/cluster down

clean: ## Remove the virtual environment and all state of this checkout.
	rm -rf .venv .venv.log .venv.log.lock .conch
