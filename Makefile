# What can be done with this repository. `make` alone lists it. Only Go is needed; what else a target would like to
# have it installs where it may, or names.

BIN        := bin/leasehold
LINT       := .cache/bin/golangci-lint
LINT_BUILT := v2.15.0
GO_FILES    = $(shell git ls-files --cached --others --exclude-standard '*.go')
SCRIPTS    := .ci/run test/fuzz test/go-test test/with-postgres test/with-pgbouncer test/bench-base test/all test/deploy test/release test/vulncheck test/apt-install test/model/check test/examples/prepare test/quickstarts/prepare $(wildcard test/quickstarts/needs/*) test/quickstarts/spring/mvnw \
              examples/shell/app.sh examples/shell/report.sh examples/shell/lib.sh $(wildcard examples/shell/www/cgi-bin/*) \
              examples/letters/letters.sh $(wildcard cmd/agent/template/*.sh cmd/agent/template/worker/*.sh)

# The binary takes its version from git, where the tree can be read: Go records that of the tag, or a pseudo-version that is ordered between the
# tags around it (v0.1.1-0.20261128012625-9869d0433bd0), with +dirty where files are changed. We do not set one by -ldflags: it would be a second
# version beside that one, which scanners read from the binary. Without git, or in a worktree, which Go does not read, it is (devel).
VCS := $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)

.DEFAULT_GOAL := help
.PHONY: release vulncheck record-migrations screenshots check-deploy help build bench bench-chunks bench-look bench-smoke demo demo-batch demo-chunks fuzz model test test-all test-pgbouncer soak test-sabotage lint lint-scripts fmt check install-tools clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/leasehold, static
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(VCS) -o $(BIN) ./cmd/agent

demo: build ## see it work: an agent, an application, tasks that succeed and tasks that do not
	@go run ./examples/demo -leasehold $(BIN)

demo-batch: build ## see a batch take back what it did: 200 services move to another zone, and one cannot
	@go run ./examples/move -leasehold $(BIN)

demo-chunks: build ## see a table of a million rows processed in chunks, as agents come and go; needs python3, too
	@command -v python3 >/dev/null || test/apt-install python3 || true
	@go run ./examples/chunks -leasehold $(BIN)

test: ## run every test, on a throwaway PostgreSQL, with the race detector where calls overlap
	@test/all

test-all: ## run everything at full length: the race detector for all tests and in SQLite, too, fuzzers, model, sabotage, soak; hours
	test/all --full
	$(MAKE) fuzz FUZZTIME=1m
	$(MAKE) model
	$(MAKE) demo-chunks
	$(MAKE) test-sabotage
	LEASEHOLD_TEST_FULL=1 test/release
	$(MAKE) soak DURATION=5m

fuzz: ## run every fuzz target in turn, FUZZTIME=1m each, or those with FUZZ in their names
	FUZZTIME='$(FUZZTIME)' FUZZ='$(FUZZ)' test/fuzz

check-deploy: ## check the image, the manifests, the chart and the alerts in deploy, without a container engine
	test/deploy

release: ## build a release into dist: tarballs, Debian packages, SBOMs and checksums; DIRTY=1 with changes that are not committed
	cd release && go run . -out ../dist $(if $(DIRTY),-dirty) $(if $(PLATFORMS),-platforms $(PLATFORMS))

vulncheck: ## look for known vulnerabilities in what is used of Go and the modules, if their database can be reached
	test/vulncheck

record-migrations: ## record the newest version of both schemas as released, before its tag: see docs/releasing.md
	LEASEHOLD_RECORD_MIGRATIONS=1 go test -count=1 -run '^TestReleasedMigrationsDoNotChange$$' ./internal/store/sqlite
	LEASEHOLD_RECORD_MIGRATIONS=1 test/with-postgres go test -count=1 -run '^TestReleasedMigrationsDoNotChange$$' ./internal/store/postgres

screenshots: ## take the pictures of the dashboard in docs/images anew, in light and dark
	@mkdir -p .cache/screenshots
	LEASEHOLD_TEST_BROWSER=$$(test/browser) LEASEHOLD_SCREENSHOTS=$(CURDIR)/.cache/screenshots go test -count=1 -run '^TestPages$$/^sqlite$$' ./test/dashboard
	cp .cache/screenshots/overview-light-1280.png docs/images/overview.png
	cp .cache/screenshots/task-failed-light-1280.png docs/images/task.png
	cp .cache/screenshots/batch-dark-1280.png docs/images/batch-dark.png
	cp .cache/screenshots/tasks-dark-390.png docs/images/tasks-phone.png

test-pgbouncer: ## run the end-to-end tests through PgBouncer in transaction mode
	test/with-postgres test/with-pgbouncer go test -count=1 -timeout 20m ./test/e2e

model: ## check the model of how agents share rows, all of it: see test/model/README.md
	@test/model/check

soak: ## break agents, network and server from random seeds for DURATION=30m, or once from SEED=1234; Linux
	LEASEHOLD_SOAK=$(or $(DURATION),30m) LEASEHOLD_SEED=$(SEED) \
	  go test -race -count=1 -v -timeout 0 -tags soak -run '^TestSoak$$' ./test/faults

test-sabotage: ## switch each safeguard off, one at a time, and see that the fault suite and random histories notice; Linux
	go test -count=1 -tags sabotage -run '^TestMachineFindsSabotage' ./test/storetest/model
	go test -race -count=1 -v -timeout 1h -tags sabotage -run '^TestSabotage$$' ./test/faults

# What the server is when it is measured: nothing is turned off that keeps data safe, and no checkpoint falls into a run.
define BENCH_POSTGRES
shared_buffers = 1GB
max_wal_size = 16GB
checkpoint_timeout = 1h
shared_preload_libraries = 'pg_stat_statements'
endef
export BENCH_POSTGRES

# The peers' packages are not needed where they take no part.
BENCH_PACKAGES = $(if $(BASE),,$(if $(findstring graphile,$(or $(PEERS),graphile)),bench/graphile/node_modules/.package-lock.json))

bench: build bin/bench $(BENCH_PACKAGES) ## measure Leasehold beside its peers, or beside an earlier tree (BASE=v0.1.0): see bench/README.md
	$(if $(BASE),test/bench-base $(BASE) .cache/base)
	LEASEHOLD_TEST_POSTGRES= LEASEHOLD_POSTGRES_CONF="$$BENCH_POSTGRES" test/with-postgres test/with-pgbouncer --optional \
	  bin/bench -targets bench/targets.json -graphile bench/graphile -agent $(BIN) \
	  $(if $(BASE),-base .cache/base) $(if $(ONLY),-only $(ONLY)) $(if $(PEERS),-peers $(PEERS)) $(if $(ROUNDS),-rounds $(ROUNDS)) \
	  $(if $(PATIENCE),-patience $(PATIENCE)) $(if $(WORKERS),-workers $(WORKERS)) $(if $(SCALE),-scale $(SCALE)) \
	  $(if $(PROFILE),-profile $(PROFILE)) $(if $(RECORD),-record $(RECORD))

.PHONY: bin/bench
bin/bench:
	cd bench && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o ../bin/bench .

bench-smoke: bin/bench ## see that the benchmarks work: their tests, and a run that is too short to tell anything
	cd bench && go test ./...
	LEASEHOLD_TEST_POSTGRES= LEASEHOLD_POSTGRES_CONF='fsync = off' test/with-postgres bin/bench -targets '' \
	  -only noop,http,many,exec,workers,latency,fair,limit,flat,snapshot,batch,sqlite,insert -peers leasehold,raw -rounds 1 -scale 0.001 -patience 0s

bench-chunks: ## measure planning chunks of tables with up to ten million rows, or what RUN names; minutes; Linux
	LEASEHOLD_TEST_POSTGRES= LEASEHOLD_POSTGRES_CONF="$$BENCH_POSTGRES" test/with-postgres \
	  go test -count=1 -v -timeout 2h -tags bench $(if $(RUN),-run '$(RUN)') ./test/chunkbench

bench-look: ## measure lists and counts with SCALE finished tasks (ten million) and a tenth as many waiting, on both stores; minutes
	LEASEHOLD_TEST_POSTGRES= LEASEHOLD_POSTGRES_CONF="$$BENCH_POSTGRES" test/with-postgres \
	  go test -count=1 -v -timeout 2h -tags bench ./test/lookbench

bench/graphile/node_modules/.package-lock.json: bench/graphile/package-lock.json
	cd bench/graphile && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

check: fmt lint lint-scripts test ## format, lint and test

lint: $(LINT) ## run golangci-lint
	$(LINT) run ./...
	cd bench && ../$(LINT) run ./...
	cd deploy/check && ../../$(LINT) run ./...
	cd release && ../$(LINT) run ./...

lint-scripts: ## run shellcheck on the shell scripts, where it is there
	@if command -v shellcheck >/dev/null || test/apt-install shellcheck; then shellcheck -x -P examples/shell $(SCRIPTS); \
	else echo 'left out: shellcheck is not there (apt install shellcheck)' >&2; [ "$(CI)" != true ]; fi

fmt: ## format the Go files
	gofmt -w $(GO_FILES)

install-tools: $(LINT) ## build the linter into .cache/bin

$(LINT): Makefile
	GOBIN=$(CURDIR)/.cache/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_BUILT)
	@touch $@

clean: ## remove what was built
	rm -rf bin dist .cache examples/node/node_modules bench/graphile/node_modules
