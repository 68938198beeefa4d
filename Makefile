# fedrspo: make train | test | race | faults | large | lint | bench | build | cross | arm64 | generate
GO ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: train test race faults large lint bench build cross arm64 generate cuda-kernels go-check

# The main job: train with three losses on the generated knapsack task. go run
# notes the revision in version.json only when told to, and then fails outside
# a usable git checkout; -buildvcs in GOFLAGS is the user's word on it.
train: go-check
	@vcs=; case "$$($(GO) env GOFLAGS)" in *-buildvcs*) ;; *) \
		if git rev-parse -q --verify HEAD >/dev/null 2>&1 && git status --porcelain >/dev/null 2>&1; then vcs=-buildvcs=true; fi;; \
	esac; \
	set -x; $(GO) run $$vcs ./cmd/train -loss rspo+,spo+,mse

test: go-check
	CGO_ENABLED=0 $(GO) test ./...

# The race detector needs a C compiler; the slow tests add nothing to it, nor do
# those of the kernels that start no goroutine.
race: go-check
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m $$($(GO) list ./... | grep -v /internal/kernel$$)
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m -run 'Concurrent|ImageBits|ImageSplit|MaxPool|ConvVersion' ./internal/kernel

# The federation's state machine through 10,000 random schedules of faults; a
# failure names the seed that repeats it. About two minutes.
faults: go-check
	FEDRSPO_SCHEDULES=10000 CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 30m -run '^TestSchedules$$' ./federation

# Federations of up to 10,000 clients: time of a round and memory. It takes some
# minutes and 2.5 GB.
large: go-check
	FEDRSPO_LARGE=1 CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 60m -run '^TestLargeFederation$$' ./experiment

lint: go-check
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt wants: $$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh; else echo "shellcheck is not installed: scripts are not checked"; fi

bench: go-check
	$(GO) test -run '^$$' -bench . -benchmem ./...

build: go-check
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/...

cross: go-check
	@for p in $(PLATFORMS); do \
		echo "build $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./... || exit 1; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./... || exit 1; \
	done
	CGO_ENABLED=0 $(GO) vet -tags nocuda ./internal/cuda/...

# Tests of the arithmetic for arm64, on this machine by QEMU's user mode (package
# qemu-user on Debian). Emulation is some ten times slower, hence -short.
QEMU_ARM64 ?= qemu-aarch64
arm64: go-check
	@command -v $(QEMU_ARM64) >/dev/null || { echo "$(QEMU_ARM64) not found: install qemu-user, or set QEMU_ARM64"; exit 1; }
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) test -short -timeout 60m -exec $(QEMU_ARM64) ./internal/kernel ./nn ./resnet

# Assembly from its generator.
generate: go-check
	$(GO) generate ./internal/kernel ./oracle/qp

# The CUDA kernels to PTX; needs no GPU.
cuda-kernels: go-check
	scripts/cuda_kernels.sh

go-check:
	@v=$$($(GO) env GOVERSION 2>/dev/null); minor=$$(echo "$$v" | sed -n 's/^go1\.\([0-9]*\).*/\1/p'); \
	if [ -z "$$minor" ] || [ "$$minor" -lt 26 ]; then \
		echo "fedrspo needs Go 1.26 or newer (found: $${v:-none}): get it from https://go.dev/dl, then run make again"; exit 1; \
	fi
