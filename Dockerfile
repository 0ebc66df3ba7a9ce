# A static binary and nothing else: no shell, no package manager, no root.
#
#   docker build --build-arg VERSION=v0.1.0 -t sluice .
#   docker run -p 8080:8080 sluice
#   docker run -p 8080:8080 -v "$PWD/sluice.yaml:/etc/sluice/sluice.yaml:ro" \
#       sluice serve --config /etc/sluice/sluice.yaml

FROM golang:1.26-bookworm AS build
WORKDIR /src
# The modules are a layer of their own: they change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unreleased
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /sluice ./cmd/sluice

FROM scratch
# For upstreams and key sets over HTTPS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sluice /sluice
USER 65532:65532
EXPOSE 8080
# Stopping: sluice drains for at most its shutdown.delay and shutdown.grace.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/sluice"]
CMD ["serve"]
