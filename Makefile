# Everything here works on a fresh Debian or Ubuntu machine that has Go, git and make.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT := mvdan.cc/gofumpt@v0.12.0
WSL := github.com/bombsimon/wsl/v5/cmd/wsl@v5.9.0 -allow-whole-block -branch-max-lines 4 -cuddle-max-statements 3
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Prints a line a package, with its seconds, and what failed last.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
TESTS = bin/gotestsum --format pkgname --format-hide-empty-pkg -- -vet=off -count=1 -parallel 2

# Which tests run where is in their names. TestSlurm… starts a real Slurm, for what only that can tell; TestLong…
# takes longer with one; TestRare… is for before a release. All others need no Slurm.
ON_SLURM := ./slurm ./internal/lab/slurmlab ./internal/lab/model ./hooks/... ./cmd/...

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
# Nor do they depend on the folder that they are built in: packages are the same anywhere, and clones share Go's cache.
export GOFLAGS := -trimpath

# What the lab and the tests need from the distribution: program → package.
# Of MariaDB only the programs: mariadb-server would start a database of the machine's own.
PACKAGES := slurm-wlm slurm-wlm-basic-plugins slurmdbd mariadb-server-core mariadb-client-core munge lua5.1 lua5.4 gcc libc6-dev strace bsdutils rpm shellcheck lua-check iproute2 curl python3
PROGRAMS := slurmctld slurmd sbatch slurmdbd mariadbd mariadb-install-db my_print_defaults munged lua5.1 lua5.4 gcc strace script rpm shellcheck luacheck ip curl python3

# Whose Slurm `make test-slurm` takes: trixie has 24.11, forky 26.05; without a suite this machine's, or one that was
# built from source, by the folder that it is installed in.
SUITE :=
SLURM :=

# How long `make fuzz` tries each target.
FUZZTIME := 1m

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint vulncheck build packages repository repository-tools dist/share bench test-slurm test-systemd fuzz clean deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: deps build ## run the main job on a simulated AWS and a real Slurm, on this machine
	@bin/capacity-lab demo --bin bin --keep

test: deps build lint ## everything that must pass: lint, unit tests, transcripts, the wire, a demo, real Slurm
	@$(MAKE) --no-print-directory packages ARCHES=$$(go env GOARCH)
	@GOBIN=$(CURDIR)/bin go install $(GOTESTSUM)
	$(TESTS) -p 2 -skip '^Test(Slurm|Long|Rare)' ./...
	@echo "the demo, on an AWS that shows everything late and whose clock is off; beside it the tests with a Slurm"
	@bin/capacity-lab demo --bin bin --unkind >bin/demo-unkind.log 2>&1 & demo=$$!; \
	PCS_CAPACITY_PACKAGES=$(CURDIR)/dist $(TESTS) -p 1 -run '^TestSlurm' $(ON_SLURM) ./packaging; status=$$?; \
	wait $$demo || { cat bin/demo-unkind.log; exit 1; }; exit $$status

test-slurm: deps build ## the longer tests on a real Slurm; SUITE=trixie: 24.11, forky: 26.05, in a chroot; SLURM=/opt/slurm: one built there
	@[ -z "$(SUITE)" ] || command -v mmdebstrap >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
	@GOBIN=$(CURDIR)/bin go install $(GOTESTSUM)
	$(if $(SUITE),$(SUDO) env PATH="$$PATH" GOMODCACHE=$$(go env GOMODCACHE) GOCACHE=$$(go env GOCACHE) PACKAGES="$(PACKAGES)" \
		internal/lab/slurmlab/suite.sh $(SUITE)) $(if $(SLURM),env PATH="$(SLURM)/bin:$(SLURM)/sbin:$$PATH") $(TESTS) -p 1 -timeout 30m -run '^Test(Slurm|Long)' $(ON_SLURM)

test-all: test repository-tools ## before a release: the race detector, other Slurms, and what is rare: faults, users, load (hours)
	@command -v dnf >/dev/null || $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends dnf >/dev/null
	CGO_ENABLED=1 $(TESTS) -p 2 -race -timeout 60m -skip '^Test(Slurm|Long|Rare)' ./...
	PCS_CAPACITY_PACKAGES=$(CURDIR)/dist $(TESTS) -p 1 -timeout 4h -run '^Test(Long|Rare)' ./...
	@$(MAKE) --no-print-directory test-slurm SUITE=trixie
	@$(MAKE) --no-print-directory test-slurm SUITE=forky

lint: deps ## gofumpt, wsl, go vet, staticcheck, shellcheck, actionlint
	@bad=$$(go run $(GOFUMPT) -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofumpt-clean: $$bad; go run $(GOFUMPT) -w ." >&2; exit 1; }
	go run $(WSL) ./... || { echo "blank lines: go run $(WSL) -fix ./..." >&2; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	shellcheck $$(git ls-files '*.sh' .ci/run)
	go run $(ACTIONLINT)

vulncheck: ## known vulnerabilities in what we call, by vuln.go.dev; for a release
	go run $(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./...

build: ## compile all programs into bin/ (at first a minute and 3 GB, for the EC2 SDK)
	go build -o bin/ ./cmd/...

packages: ## DEB and RPM for amd64 and arm64, in dist/
packages: dist/share
	@for arch in $(ARCHES); do \
		echo "building $(VERSION) for $$arch"; \
		GOARCH=$$arch go build -o dist/linux-$$arch/ \
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
	sh packaging/licences.sh >dist/third-party-licences
	gzip -9n dist/third-party-licences
	printf -- '- {semver: "%s-1", date: %s, packager: "%s", deb: {urgency: medium, distributions: [stable]}, changes: [{note: "Built from commit %s."}]}\n' \
		"$(VERSION)" "$(DATE)" "pcs-capacity maintainers <pcs-capacity@users.noreply.github.com>" "$(COMMIT)" >dist/changelog.yaml

test-systemd: deps ## the service of the DEB under a real systemd, in a container (as root; a minute)
	@{ command -v systemd-nspawn && command -v mmdebstrap; } >/dev/null || $(SUDO) apt-get install -y -qq --no-install-recommends systemd-container mmdebstrap >/dev/null
	@$(MAKE) --no-print-directory packages ARCHES=$$(go env GOARCH)
	@$(SUDO) env PATH="$$PATH" PACKAGES="$(PACKAGES) systemd systemd-sysv dbus" internal/lab/slurmlab/suite.sh bookworm true
	$(SUDO) packaging/systemd.sh .suites/bookworm

bench: deps ## speed as a ratio to something run beside it, never as a bare time
	go test ./internal/bench -run '^$$' -bench . -benchtime 1x -timeout 60m

fuzz: ## each fuzz target for a minute; what it finds stays in testdata/fuzz
	@git grep -n '^func Fuzz' -- '*_test.go' | sed 's/^\([^:]*\):.*func \(Fuzz[A-Za-z]*\).*/\1 \2/' | while read -r file target; do \
		echo "== $$target"; go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s || exit; \
	done

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
