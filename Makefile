# What developers and CI run. `make help` lists it.
#
# demo, test, check, bench and image set up what they need on a Debian machine as root:
# missing packages and, for as long as they run, a Docker engine. Elsewhere they
# say what is missing. Building needs nothing but Go.

GO         ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

PREFIX     ?= /usr/local
DESTDIR    ?=
ROUNDS     ?= 200

# Where tests find the programs of the build.
export HOLON_TEST_BIN = $(CURDIR)/bin

PACKAGES ?= ./...

STATIC = CGO_ENABLED=0 $(GO) build -trimpath -ldflags

.PHONY: help build programs man install uninstall release demo test check test-user test-clients torture endurance screenshots lint bench image images clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

build: ## bin/agentd and bin/holon, static and stripped
	$(STATIC) '-s -w -X holon/agentd.version=$(VERSION)' -o bin/agentd ./cmd/agentd
	$(STATIC) '-s -w -X main.version=$(VERSION)' -o bin/holon ./cmd/holon

programs: build ## what tests start: the two binaries, and small programs into bin/test
	@mkdir -p bin/test
	$(STATIC) '-s -w' -o bin/test/ ./test/programs/...

man: build ## manual pages of the commands into bin/man
	rm -rf bin/man
	bin/holon man bin/man
	.ci/agentd-page bin/agentd >bin/man/agentd.1

install: man ## holon into PREFIX/bin, agentd into PREFIX/libexec/holon, manual pages; PREFIX=$HOME/.local
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/libexec/holon'
	install -m 755 bin/holon '$(DESTDIR)$(PREFIX)/bin/holon'
	install -m 755 bin/agentd '$(DESTDIR)$(PREFIX)/libexec/holon/agentd'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 644 bin/man/*.1 '$(DESTDIR)$(PREFIX)/share/man/man1'

uninstall: ## remove what install put below PREFIX; HOLON_HOME stays
	rm -f '$(DESTDIR)$(PREFIX)/bin/holon' '$(DESTDIR)$(PREFIX)/libexec/holon/agentd'
	rm -f '$(DESTDIR)$(PREFIX)'/share/man/man1/holon.1 '$(DESTDIR)$(PREFIX)'/share/man/man1/holon-*.1 '$(DESTDIR)$(PREFIX)/share/man/man1/agentd.1'
	! test -d '$(DESTDIR)$(PREFIX)/libexec/holon' || rmdir '$(DESTDIR)$(PREFIX)/libexec/holon'

release: ## archives, deb and rpm for linux/amd64 and arm64 in dist, with checksums and lists of modules; VERSION=v1.2.3
	GO='$(GO)' .ci/release '$(VERSION)' dist

demo: build ## fix a failing test in a real container and show the change
	@.ci/need git:git
	@.ci/with-engine sh -c 'images/base/build && cmd/holon/demo/run'

# The fast tier. A package or more: make test PACKAGES=./runner/...; flags of go test: TESTFLAGS=-count=1.
test: programs ## what a change can break, against a real engine, in ten minutes; PACKAGES=./runner/... for a part
	@.ci/need git:git gcc:gcc,libc6-dev mkfs.ext4:e2fsprogs pg_ctlcluster:postgresql
	@.ci/with-engine sh -c 'images/base/build && .ci/test -short $(TESTFLAGS) $(PACKAGES)'

# The full tier, for the night.
check: lint programs ## all there is: lint, long properties, torture, releases, the ordinary user, the image
	@.ci/need git:git gcc:gcc,libc6-dev mkfs.ext4:e2fsprogs curl:curl ssh-keygen:openssh-client minisign:minisign \
		pg_ctlcluster:postgresql sshd:openssh-server rootlesskit:rootlesskit newuidmap:uidmap slirp4netns:slirp4netns \
		podman:podman,crun
	.ci/chart
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet -trimpath ./cmd/holon ./state/... ./internal/... ./runner ./runner/doctor ./runner/engine/... ./runner/workspace/git
	@.ci/with-engine sh -c 'images/base/build && .ci/with-kubernetes .ci/test -timeout=40m $(TESTFLAGS) $(PACKAGES) && .ci/user && .ci/image'

test-user: programs ## the tests that differ for an ordinary user, as one; for root
	@.ci/need git:git
	@.ci/with-engine sh -c 'images/base/build && .ci/user'

test-clients: programs ## only the conformance suite and the clients of others, against agentd
	$(GO) test -trimpath -count=1 -v $(TESTFLAGS) ./test/clients

torture: programs ## kill agentd, containers, holon and its daemon at random; ROUNDS=2000, TORTUREFLAGS="-kind agents -seed 7"
	@.ci/need git:git mkfs.ext4:e2fsprogs
	@.ci/with-engine sh -c 'images/base/build && $(GO) run -trimpath ./test/torture -rounds $(ROUNDS) $(TORTUREFLAGS)'

endurance: programs ## twenty agents, two thousand messages, restarts, and then sleep; TORTUREFLAGS="-messages 500"
	@.ci/with-engine sh -c 'images/base/build && $(GO) run -trimpath ./test/torture -kind endurance -rounds 1 $(TORTUREFLAGS)'

screenshots: programs ## pictures of the web console in docs/images
	@.ci/need git:git chromium:chromium,fonts-dejavu-core
	$(GO) test -trimpath -count=1 -timeout=10m -run TestScreenshots ./runner/console -args -screenshots $(CURDIR)/docs/images

lint: ## gofmt, go vet, staticcheck, links of the documents
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	CGO_ENABLED=0 $(GO) vet -trimpath ./...
	CGO_ENABLED=0 GOFLAGS="$$($(GO) env GOFLAGS) -trimpath" $(GO) run $(STATICCHECK) ./...
	@.ci/links

bench: programs ## measure against floors in the same run; BENCHFLAGS=... for more
	@.ci/need git:git
	@.ci/with-engine sh -c 'images/base/build && $(GO) run -trimpath ./test/bench $(BENCHFLAGS)'

image: ## the base image holon/base:latest, from a registry or offline
	@.ci/with-engine images/base/build

images: ## holon/go, node, python, rust, java and postgres on the base image, from Debian packages
	@.ci/with-engine sh -c 'images/base/build && images/build'

clean: ## remove what building made in this directory
	rm -rf bin dist
