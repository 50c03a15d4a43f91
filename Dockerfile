# An image with mcpd and nothing else: `docker build --file Dockerfile --tag mcpd:VERSION target/releases/vVERSION`.
#
# It runs servers that have a `url`, or whose commands the base has. For those of npm: `--build-arg BASE=docker.io/library/node:24-slim`.
# The configuration is /home/mcpd/.config/mcpd/config.toml.
ARG BASE=gcr.io/distroless/cc-debian13
ARG UNPACKER=docker.io/library/debian:trixie-slim

FROM ${UNPACKER} AS files
COPY mcpd-*-linux.tar.gz /release/
RUN machine=$(uname -m) \
    && install -d -m 700 -o 10001 -g 10001 /image/home/mcpd \
    && install -d /image/usr \
    && tar -xzf /release/mcpd-*-"$machine"-linux.tar.gz -C /image/usr --no-same-owner bin share/doc/mcpd

FROM ${BASE}
COPY --from=files /image/ /
USER 10001:10001
ENV HOME=/home/mcpd
WORKDIR /home/mcpd
ENTRYPOINT ["/usr/bin/mcpd"]
CMD ["serve"]
HEALTHCHECK CMD ["/usr/bin/mcpd", "status"]
