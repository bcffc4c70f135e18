# An image whose entry point is "agentd serve", and one of "holon serve" that has agentd, too.
#
#   docker build -t holon/agentd .
#   docker build -t holon/holon --target holon .
#
# builds them from source with the Go image. Without a registry, build the
# base image and the binary first; nothing is then fetched from anywhere:
#
#   images/base/build && make build
#   docker build --build-arg AGENTD=prebuilt --build-arg GO_IMAGE=holon/base:latest -t holon/agentd .
#
# Both ways work with BuildKit and with the classic builder, which runs every
# stage before the one that is asked for: that is why one stage holds both.
ARG GO_IMAGE=golang:1.26-bookworm
ARG BASE_IMAGE=holon/base:latest

FROM ${GO_IMAGE} AS build
ARG AGENTD=source
WORKDIR /src
COPY . .
# What agentd writes belongs to the user that it runs as by default.
RUN set -eu; \
    mkdir -p /out/bin /out/data/ipc /out/data/input /out/data/output /out/data/state /out/data/skills /out/data/workspaces; \
    chmod 0700 /out/data/ipc /out/data/state; \
    case "$AGENTD" in \
    source) CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/bin/agentd ./cmd/agentd ;; \
    prebuilt) install -m 0755 bin/agentd /out/bin/agentd ;; \
    *) echo "AGENTD must be source or prebuilt, not '$AGENTD'" >&2; exit 2 ;; \
    esac

FROM ${BASE_IMAGE} AS agentd
COPY --from=build /out/bin/agentd /holon/bin/agentd
COPY --from=build --chown=1000:1000 /out/data/ /holon/
USER 1000:1000
WORKDIR /holon/workspaces
STOPSIGNAL SIGTERM
ENTRYPOINT ["/holon/bin/agentd", "serve"]

FROM ${GO_IMAGE} AS build-holon
ARG AGENTD=source
WORKDIR /src
COPY . .
RUN set -eu; \
    mkdir -p /out/bin /out/home; \
    case "$AGENTD" in \
    source) CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/bin/holon ./cmd/holon ;; \
    prebuilt) install -m 0755 bin/holon /out/bin/holon ;; \
    esac

# The base has git and the certificates of authorities. /var/lib/holon is for a volume.
FROM agentd AS holon
COPY --from=build-holon /out/bin/holon /usr/local/bin/holon
COPY --from=build-holon --chown=1000:1000 /out/home/ /var/lib/holon/
ENV HOLON_AGENTD=/holon/bin/agentd HOLON_HOME=/var/lib/holon/home HOME=/var/lib/holon
WORKDIR /var/lib/holon
ENTRYPOINT ["/usr/local/bin/holon"]
CMD ["serve"]

FROM agentd
