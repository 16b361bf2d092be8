# The server in a container: docker build -t tandem . && docker run -p 11211:11211 tandem
FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/setup scripts/setup
# hadolint ignore=DL3008
RUN scripts/setup build \
  && apt-get install -y --no-install-recommends dpkg-dev file
COPY . .
RUN make deb

FROM debian:12-slim
# hadolint ignore=DL3008
RUN --mount=type=bind,from=build,source=/src/build/packages,target=/packages \
  groupadd --gid 11211 tandem \
  && useradd --uid 11211 --gid tandem --home-dir /nonexistent --shell /usr/sbin/nologin tandem \
  && apt-get update \
  && apt-get install -y --no-install-recommends /packages/tandem_*.deb \
  && rm -rf /var/lib/apt/lists/*
COPY deploy/docker/healthcheck /usr/local/bin/tandem-healthcheck
# A number, so that a host can see that it is not root.
USER 11211:11211
EXPOSE 11211
ENTRYPOINT ["tandem"]
CMD ["serve", "--listen", "*"]
HEALTHCHECK --interval=10s --timeout=8s --start-period=5s \
  CMD ["tandem-healthcheck"]
