# make prints the targets. Recipes of more than a line are scripts in .ci/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO       ?= go
PREFIX   ?= /usr/local
FUZZ     ?= 20s
COUNT    ?= 40
MUTATED  ?= ./collect/... ./view ./dataset ./diagnose/... ./measure ./profile/...
BENCH    ?= .
WORLD    ?=
FOR      ?=
HOURS    ?= 24
RECORDED ?=
ONLY     ?=
KILLS    ?=
VERSION := $(shell .ci/version)
TOOLS   := $(CURDIR)/.cache/tools

# The binary is static. Linters and tests use the same flags, so that packages are compiled once.
export CGO_ENABLED := 0

.PHONY: help build run needs test race cases kernels check bench grafana pictures tutorials bpf \
	mutate fuzz attack notice sbom dist distcheck arm clean install

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the page (PAGE=no: without it) and the static binary bin/culprit
	@.ci/page build
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/culprit ./cmd/culprit

run: build ## build, record this machine, print the page's address and a diagnosis; FOR=20s ends it
	bin/culprit serve $(if $(FOR),--for $(FOR))

needs: ## install the tools that tests need
	@.ci/needs nicstat sar:sysstat mpstat:sysstat iperf3 ethtool ip:iproute2 ps:procps tmux prometheus prometheus-alertmanager prometheus-node-exporter victoria-metrics \
		bpftrace node:nodejs npm chromium clang-14 llvm-strip-14:llvm-14 /usr/include/bpf/bpf_helpers.h:libbpf-dev \
		qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio zstd lz4 depmod:kmod gcc:build-essential ruby php:php-cli javac:default-jdk-headless
	@cases/vm/kernels

test: needs ## install what tests need, run all tests, print what was skipped and why
	@.ci/page build
	@.ci/page test
	@$(GO) build -trimpath -o $(TOOLS)/ ./tools/tests
	@$(TOOLS)/tests -root .
	@$(GO) build -trimpath -o $(TOOLS)/culprit ./cmd/culprit
	@CULPRIT=$(TOOLS)/culprit .ci/page eyes

race: ## run the tests under the race detector, if there is a C compiler
	@.ci/race

cases: build ## measure docs/ACCURACY.md: what runs are missing; root. RUNS= ONLY= FOR= FRESH=yes
	@.ci/needs ip:iproute2 ethtool iperf3
	@$(GO) build -trimpath -o $(TOOLS)/ ./cases/accuracy
	@$(TOOLS)/accuracy -culprit $(CURDIR)/bin/culprit $(if $(RUNS),-runs $(RUNS)) $(if $(ONLY),-only '$(ONLY)') $(if $(FOR),-for $(FOR)) $(if $(FRESH),-fresh)

kernels: needs ## run every command on emulated Linux 5.10, 6.1, 6.12 and 7.2; about 15 minutes
	CULPRIT_KERNEL_COMMANDS=1 $(GO) test -count=1 -timeout 60m ./cases -run TestKernels -v

check: $(TOOLS)/staticcheck ## gofmt, vet, staticcheck, prose, vulnerabilities, the page
	@.ci/check $(TOOLS)

# The linters, at the versions that tools/lint/go.mod pins.
$(TOOLS)/staticcheck: tools/lint/go.mod tools/lint/go.sum tools/lint/types/main.go
	@$(GO) -C tools/lint build -o $(TOOLS)/ tool ./types
	@touch $@

bench: build ## benchmarks (BENCH=, WORLD=, SOAK=, HOURS=, RECORDED=: see docs/PERFORMANCE.md)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 0.3s -benchmem ./...
	@.ci/needs nicstat sar:sysstat ss:iproute2 top:procps bpftrace
	@$(GO) build -o $(TOOLS)/ ./tools/bench
	@$(GO) test -c -o $(TOOLS)/everything.test ./cmd/culprit
	@$(TOOLS)/bench -culprit $(CURDIR)/bin/culprit -everything $(TOOLS)/everything.test -world '$(WORLD)' $(if $(SOAK),-soak $(SOAK))
	@$(GO) -C tools/archive build -o $(TOOLS)/archive .
	@$(TOOLS)/archive -hours $(HOURS) -recorded '$(RECORDED)'
	@.ci/needs node:nodejs npm chromium
	@CULPRIT=$(CURDIR)/bin/culprit ARCHIVE=$(TOOLS)/archive .ci/page speed

grafana: build ## run Grafana's data source against the built program
	@$(GO) -C tools/grafana build -o $(TOOLS)/grafana .
	@$(TOOLS)/grafana -culprit $(CURDIR)/bin/culprit

pictures: build ## make docs/img again, about 3 minutes; needs root
	@.ci/needs ip:iproute2 iperf3 unshare:util-linux node:nodejs npm chromium
	@.ci/pictures

tutorials: build ## record the outputs in docs/tutorials again, on an idle machine; needs root
	@.ci/needs ip:iproute2 ethtool
	@$(GO) build -trimpath -o $(TOOLS)/ ./tools/tutorials ./cases/lab
	@$(TOOLS)/tutorials -culprit $(CURDIR)/bin/culprit -lab $(TOOLS)/lab docs/tutorials/*.md

bpf: ## compile the fixed BPF programs, after a change in kernel/bpf/program
	@.ci/needs clang-14 llvm-strip-14:llvm-14 /usr/include/bpf/bpf_helpers.h:libbpf-dev
	$(GO) generate ./kernel/bpf/program

mutate: ## mutation testing: COUNT=40 mutants per package, and each threshold raised
	@$(GO) build -trimpath -o $(TOOLS)/ ./tools/mutate
	@$(TOOLS)/mutate -n $(COUNT) $(MUTATED)
	$(GO) run ./tools/thresholds

fuzz: ## run each fuzz target for FUZZ=20s
	@.ci/fuzz $(FUZZ)

attack: ## attack a running server, 5 minutes, root; ONLY=S1,S3 some, KILLS=200 kill -9 instead
	@$(GO) build -trimpath -o $(TOOLS)/ ./cmd/culprit ./cases/attack
	@$(TOOLS)/attack -culprit $(TOOLS)/culprit -only '$(ONLY)' $(if $(KILLS),-kills $(KILLS))

notice: ## write NOTICE again, after a change of modules
	@.ci/page build
	$(GO) run ./tools/licenses

sbom: build ## write bin/culprit.cdx.json, the bill of materials (CycloneDX)
	$(GO) run ./tools/licenses -version '$(VERSION)' -sbom bin/culprit > bin/culprit.cdx.json

dist: ## build packages, tarballs, image and SHA256SUMS of a release in bin/dist
	@.ci/page build
	@$(GO) -C tools/dist build -o $(TOOLS)/dist .
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(TOOLS)/dist -root . -version '$(VERSION)'

distcheck: dist ## test what make dist built, in a clean Debian; 5 minutes, root
	@.ci/needs debootstrap lintian rpm podman
	$(GO) -C tools/dist test -count=1 -timeout 30m -v .

arm: ## run pure tests for arm64 under qemu, 3 minutes
	@.ci/needs qemu-aarch64-static:qemu-user-static
	GOARCH=arm64 $(GO) test -vet=off -exec qemu-aarch64-static ./container ./measure ./wire \
		./diagnose/series ./diagnose/phrase ./yamlfile ./lang/syntax

clean: ## remove what was built
	rm -rf bin .cache

install: build ## install binary, licenses, man pages, completions, unit below PREFIX=/usr/local
	install -D -m 0755 bin/culprit $(DESTDIR)$(PREFIX)/bin/culprit
	install -D -m 0644 NOTICE LICENSE -t $(DESTDIR)$(PREFIX)/share/doc/culprit
	sed 's|@PREFIX@|$(PREFIX)|' packaging/culprit.service | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/culprit.service
	[ -e $(DESTDIR)/etc/culprit/culprit.yaml ] || install -D -m 0640 packaging/culprit.yaml $(DESTDIR)/etc/culprit/culprit.yaml
	install -D -m 0644 packaging/culprit.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/culprit.conf
	install -D -m 0644 packaging/culprit.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/culprit.conf
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	bin/culprit man $(DESTDIR)$(PREFIX)/share/man/man1
	bin/culprit completion bash | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/bash-completion/completions/culprit
	bin/culprit completion zsh | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_culprit
	bin/culprit completion fish | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/culprit.fish
