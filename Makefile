# Everything here works on a fresh Debian or Ubuntu machine that has Go, git and make.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Runs a test that has failed once more, alone, and prints both: a hundred tests and more
# wait for a real Slurm, and a machine has its moments. Never more than three, and no data race.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
TESTS = bin/gotestsum --format pkgname --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --packages

# Mutation testing: the packages that decide, with their short tests.
MUTATED := capacity internal/lifecycle internal/market internal/setup hooks/submit hooks/prolog hooks/power
# Files of theirs that read or carry out, which ask and change slurmctld and AWS.
UNMUTATED_internal/lifecycle := actual actual_jobs after carry clean interrupt observe pass post see see_health see_jobs settings sources watch
UNMUTATED_internal/setup := change do inspect inspect_ec2 inspect_launch mark rollover setup slurm teardown_find users
# Their tests need no Slurm and cost little, those over the wire included.
UNSHORT := internal/setup
UNMUTATED_hooks/power := configure executor facts lookup resume suspend

# Packages, and the manual pages in them.
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
MD2MAN := github.com/cpuguy83/go-md2man/v2@v2.0.7
ARCHES := amd64 arm64
# 1.2.3 at the tag v1.2.3; after it, or without one, what sorts later the later it is.
DATE = $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
COMMIT = $(shell git describe --always --dirty --exclude '*' --abbrev=40)
VERSION = $(or $(shell git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | sed s/^v//),$(\
	)$(shell { git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || echo v0.0.0; } | sed s/^v//)+$(\
	)$(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S).$(shell git describe --always --exclude '*'))

# Programs are static, so that they run on every distribution. Only the race detector needs
# cgo; all else shares what is compiled without it.
export CGO_ENABLED := 0

# What the lab and the tests need from the distribution: program → package.
# Of MariaDB only the programs: mariadb-server would start a database of the machine's own.
PACKAGES := slurm-wlm slurm-wlm-basic-plugins slurmdbd mariadb-server-core mariadb-client-core munge lua5.1 lua5.4 gcc libc6-dev strace bsdutils rpm shellcheck lua-check
PROGRAMS := slurmctld slurmd sbatch slurmdbd mariadbd mariadb-install-db my_print_defaults munged lua5.1 lua5.4 gcc strace script rpm shellcheck luacheck

# The tests that say what the race detector would spoil in them: `make test-all` runs them without it.
UNRACED = $$(git grep -l '^//go:build !race$$' -- '*_test.go')

# What `make test` runs with the race detector: the packages that do things side by side. The EC2 SDK is compiled once
# more for them, a minute on 2 cores where Go's cache is empty.
RACED := ./ec2 ./hooks/... ./internal/lifecycle ./internal/machine ./internal/market ./internal/notify ./internal/setup \
	./internal/state ./internal/terminal

# Packages, and tests of each, that run at once: those with a real Slurm wait much more than they work.
AT_ONCE := -p $(shell echo $$((2 * $$(nproc)))) -parallel $(shell echo $$((4 * $$(nproc))))

# An AWS with 5 s between a change and its being seen, and another clock than this machine.
UNKIND := --lag 5s --purchase-lag 5s --clock-offset 90s

# Whose Slurm `make test-slurm` takes.
SUITE := trixie

# How long `make fuzz` tries each target.
FUZZTIME := 1m

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint vulncheck build packages repository repository-tools dist/share bench bench-resume bench-submit bench-sync bench-start bench-readme test-slurm test-systemd fuzz faults load mutants clean deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: deps build ## run the main job on a simulated AWS and a real Slurm, on this machine
	@bin/capacity-lab demo --bin bin --keep

test: deps build lint ## everything that must pass: lint, unit tests, transcripts, the wire, real Slurm
	@$(MAKE) --no-print-directory packages ARCHES=$$(go env GOARCH) TRIM=
	@GOBIN=$(CURDIR)/bin go install $(GOTESTSUM)
	@echo "the demo on an AWS that shows everything late and whose clock is off; beside it the race detector"; \
	bin/capacity-lab demo --bin bin $(UNKIND) >bin/demo-unkind.log 2>&1 & demo=$$!; \
	CGO_ENABLED=1 go test -race -short $(RACED); raced=$$?; \
	wait $$demo || { cat bin/demo-unkind.log; exit 1; }; exit $$raced
	PCS_CAPACITY_PACKAGES=$(CURDIR)/dist $(TESTS) ./... -- -timeout 30m $(AT_ONCE)

test-all: test repository-tools ## and what is slow and rare: the race detector, a year of blocks, every fault, other Slurms (hours)
	@command -v dnf >/dev/null || $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends dnf >/dev/null
	PCS_CAPACITY_ALL=1 PCS_CAPACITY_PACKAGES=$(CURDIR)/dist CGO_ENABLED=1 $(TESTS) ./... -- -race -timeout 60m $(AT_ONCE)
	PCS_CAPACITY_ALL=1 $(TESTS) "$$(dirname $(UNRACED) | sort -u | sed 's|^|./|' | paste -sd ' ')" -- -timeout 20m \
		-run "^($$(sed -n 's/^func \(Test[^(]*\)(.*/\1/p' $(UNRACED) | paste -sd '|'))$$"
	@$(MAKE) --no-print-directory faults
	@$(MAKE) --no-print-directory test-slurm SUITE=trixie
	@$(MAKE) --no-print-directory test-slurm SUITE=forky

lint: deps ## gofmt, go vet, staticcheck, shellcheck, actionlint
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofmt-clean: $$bad" >&2; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	shellcheck $$(git ls-files '*.sh' .ci/run)
	go run $(ACTIONLINT)

vulncheck: ## known vulnerabilities in what we call, by vuln.go.dev; for a release
	go run $(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./...

build: ## compile all programs into bin/ (at first a minute and 3 GB, for the EC2 SDK)
	go build -o bin/ ./cmd/...

packages: ## DEB and RPM for amd64 and arm64, in dist/
packages: TRIM := -trimpath
packages: dist/share
	@for arch in $(ARCHES); do \
		echo "building $(VERSION) for $$arch"; \
		GOARCH=$$arch go build $(TRIM) -o dist/linux-$$arch/ \
			-ldflags "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)" ./cmd/... || exit; \
		for file in nfpm.yaml packaging/lab.yaml; do for form in deb rpm; do \
			ARCH=$$arch VERSION=$(VERSION) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
				dist/tools/nfpm package -f $$file -p $$form -t dist/ || exit; \
		done; done; \
	done

repository: packages ## an apt and a yum repository as a folder, dist/repository (URL=https://… where it will be, KEY=… that signs it)
	@$(MAKE) --no-print-directory repository-tools
	@packaging/repository.sh dist "$(or $(URL),file://$(CURDIR)/dist/repository)" $(KEY)

repository-tools:
	@{ command -v apt-ftparchive && command -v createrepo_c && command -v rpmsign && command -v gpg; } >/dev/null || \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends apt-utils createrepo-c rpm gpg gpg-agent >/dev/null

dist/share: build # what is the same on every architecture
	rm -rf dist && mkdir -p dist/man
	GOBIN=$(CURDIR)/dist/tools go install $(NFPM)
	GOBIN=$(CURDIR)/dist/tools go install $(MD2MAN)
	bin/pcs-capacity manual dist/man
	bin/capacity-lab manual dist/man
	sh packaging/configuration.sh manual >dist/man/pcs-capacity-config.toml.5.md
	for page in dist/man/*.md; do dist/tools/go-md2man -in $$page -out $${page%.md} && gzip -9n $${page%.md} || exit; done
	sh packaging/configuration.sh settings >dist/config.toml
	sh packaging/sbom.sh "$(VERSION)" >dist/sbom.cdx.json
	sh packaging/licences.sh | gzip -9n >dist/third-party-licences.gz
	printf -- '- {semver: "%s-1", date: %s, packager: "%s", deb: {urgency: medium, distributions: [stable]}, changes: [{note: "Built from commit %s."}]}\n' \
		"$(VERSION)" "$(DATE)" "pcs-capacity maintainers <pcs-capacity@users.noreply.github.com>" "$(COMMIT)" >dist/changelog.yaml

test-slurm: deps build ## the tests on Slurm 24.11 (SUITE=trixie) or 26.05 (SUITE=forky), in a chroot
	@command -v mmdebstrap >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
	$(SUDO) env PATH="$$PATH" GOMODCACHE=$$(go env GOMODCACHE) GOCACHE=$$(go env GOCACHE) PACKAGES="$(PACKAGES)" internal/slurmlab/suite.sh $(SUITE) sh -c ' \
		slurmctld -V && go test -count=1 -timeout 60m $(AT_ONCE) -p 1 ./slurm ./internal/slurmlab ./hooks/... ./cmd/... && \
		bin/capacity-lab demo --bin bin >bin/demo-$(SUITE).log'

test-systemd: deps ## the service of the DEB under a real systemd, in a container (as root; a minute)
	@{ command -v systemd-nspawn && command -v mmdebstrap; } >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends systemd-container mmdebstrap >/dev/null
	@$(MAKE) --no-print-directory packages ARCHES=$$(go env GOARCH) TRIM=
	@$(SUDO) env PATH="$$PATH" PACKAGES="$(PACKAGES) systemd systemd-sysv dbus" internal/slurmlab/suite.sh bookworm true
	$(SUDO) packaging/systemd.sh .suites/bookworm

bench: ## speed as a ratio to something run beside it, never as a bare time
	go test -run '^$$' -bench . -benchtime 1x $$(go list ./... | grep -v internal/bench/suite)

faults: ## every command and hook, through every fault at each of its calls (half an hour)
faults: deps
	@mkdir -p bin && rm -f bin/faults.txt
	PCS_CAPACITY_FAULTS=$(CURDIR)/bin/faults.txt go test -count=1 -timeout 4h -run '^TestR5_Faults$$' ./cmd/pcs-capacity >bin/faults.log || failed=1; \
	cat bin/faults.txt; [ -z "$$failed" ] || { echo "what failed is in bin/faults.log" >&2; exit 1; }

load: ## 10,000 submissions while blocks open and close; a day of sync (as root; 10 min)
load: deps
	PCS_CAPACITY_LOAD=$(or $(JOBS),10000) go test -count=1 -v -timeout 3h -run '^(TestLoad|TestSyncOverADay)$$' ./cmd/pcs-capacity

bench-resume bench-submit bench-sync bench-start: bench-%: deps ## ratios, into internal/bench/results
	go test ./internal/bench/suite -run '^$$' -bench '(?i)^Benchmark$*' -benchtime 1x -timeout 60m -v

bench-readme: ## what they measured, in docs/performance.md
	go run ./internal/bench/readme

fuzz: ## each fuzz target for a minute; what it finds stays in testdata/fuzz
	@git grep -n '^func Fuzz' -- '*_test.go' | sed 's/^\([^:]*\):.*func \(Fuzz[A-Za-z]*\).*/\1 \2/' | while read -r file target; do \
		echo "== $$target"; go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s || exit; \
	done

mutants: ## change the code in 6,000 places; list what no fast test notices (an hour; SIZE=60 SEED=2: so many of a package)
	go run ./internal/mutants -size $(or $(SIZE),0) -seed $(or $(SEED),1) -long "$(UNSHORT)" \
		-without "$(foreach p,$(MUTATED),$(UNMUTATED_$p:%=$p/%))" $(MUTATED)

clean: ## remove what the build made
	rm -rf bin dist
	[ ! -e .suites ] || $(SUDO) rm -rf .suites

deps:
	@missing=; for p in $(PROGRAMS); do PATH="$$PATH:/usr/sbin:/sbin" command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] || { \
		echo "installing $(PACKAGES) (missing:$$missing)"; \
		command -v apt-get >/dev/null || { echo "this needs apt-get; install these by hand:$$missing" >&2; exit 1; }; \
		$(SUDO) apt-get update -qq && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove $(PACKAGES) >/dev/null; }
