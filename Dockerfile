# Builds polytrie and keeps nothing but the binary.
#
#   docker build -t polytrie .
#   docker run --rm -v polytrie-data:/data -v "$PWD/blocks:/blocks:ro" polytrie \
#       import /blocks/chain.rlp --chain /blocks/genesis.json --datadir /data
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Cargo features add layers and engines, for example: --build-arg FEATURES=rocksdb (which also needs libclang-dev).
ARG FEATURES=""
RUN cargo build --release --locked --bin polytrie --features "$FEATURES" \
 && strip target/release/polytrie

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="polytrie" \
      org.opencontainers.image.description="An Ethereum execution client whose state layer is a part you can swap" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
RUN useradd --create-home --uid 1000 polytrie \
 && install -d -o polytrie -g polytrie /data
COPY --from=build /src/target/release/polytrie /usr/local/bin/polytrie
USER polytrie
VOLUME /data
ENTRYPOINT ["/usr/local/bin/polytrie"]
CMD ["--help"]
