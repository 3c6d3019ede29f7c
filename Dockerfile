# Builds polytrie and keeps nothing but the binary.
#
#   docker build -t polytrie .
#   docker run --rm -v polytrie-data:/data -v "$PWD/blocks:/blocks:ro" polytrie \
#       import /blocks/chain.rlp --chain /blocks/genesis.json --datadir /data
#   docker run --rm -p 127.0.0.1:8545:8545 polytrie devnet --http.addr 0.0.0.0
#
# Dependencies are compiled in an image layer of their own, which is used again until Cargo.lock or a manifest changes.
FROM rust:1.95-slim-bookworm AS rust
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential \
 && rm -rf /var/lib/apt/lists/*
RUN cargo install cargo-chef --version 0.1.78 --locked
WORKDIR /src
# Cargo features add layers and engines: --build-arg FEATURES=cassandra, nomt or qmdb; rocksdb, if libclang-dev is added above.
ARG FEATURES=""

FROM rust AS recipe
COPY . .
RUN cargo chef prepare --bin polytrie --recipe-path recipe.json

FROM rust AS build
COPY --from=recipe /src/recipe.json .
RUN cargo chef cook --release --locked --bin polytrie --features "$FEATURES" --recipe-path recipe.json
COPY . .
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
