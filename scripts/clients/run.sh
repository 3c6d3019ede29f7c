#!/usr/bin/env bash
# Points real client libraries at `polytrie devnet`, on every state layer of the binary.
#
#   scripts/clients/run.sh [BINARY] [LAYER…]
#
# The libraries (ethers, viem, web3.py, hardhat, alloy) are installed from their registries into a temporary directory.
# Needs node 20, npm, python 3.10 or newer, and Rust for alloy, unless ALLOY_CLIENT names the program of `alloy/` that
# was built already. Without layers it runs on every one of the binary but lvmt: name it to have it too.
set -euo pipefail

case ${1:-} in
    -h | --help)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:-$here/../../target/release/polytrie}")
shift || true
layers=("$@")
work=$(mktemp -d)
node_pid=
cleanup() { [ -z "$node_pid" ] || kill "$node_pid" 2>/dev/null || true; rm -rf "$work"; }
trap cleanup EXIT
if [ ${#layers[@]} -eq 0 ]; then
    for layer in raw mpt mpt-hash replica lmpt rain binary nomt qmdb; do
        # A layer that is not compiled in is refused at once.
        "$binary" init --datadir "$work/$layer" --chain dev --state "$layer" >/dev/null 2>&1 && layers+=("$layer")
    done
    if [ ${#layers[@]} -eq 0 ]; then
        echo "$binary makes a directory under no layer; name a polytrie that runs" >&2
        exit 3
    fi
fi

echo "installing the libraries into $work"
cp -r "$here"/*.mjs "$here"/*.cjs "$here/hardhat" "$work"
(cd "$work" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund ethers@6 viem@2 ws@8 \
    @uniswap/v2-core@1.0.1 @uniswap/v2-periphery@1.1.0-beta.0)
(cd "$work/hardhat" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund \
    hardhat@2 @nomicfoundation/hardhat-ethers@3 @nomicfoundation/hardhat-network-helpers@1 ethers@6)
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet 'web3>=7,<8'
alloy=${ALLOY_CLIENT:-}
if [ -z "$alloy" ]; then
    cargo build --quiet --manifest-path "$here/alloy/Cargo.toml" --target-dir "$work/alloy"
    alloy=$work/alloy/debug/alloy-client
fi

for layer in "${layers[@]}"; do
    "$binary" devnet --state "$layer" --http.port 0 >"$work/out" &
    node_pid=$!
    until grep -q '^listening on' "$work/out"; do
        kill -0 "$node_pid" 2>/dev/null || { echo "$layer: the devnet ended before it listened" >&2; exit 3; }
        sleep 0.1
    done
    url=$(sed -n 's/^listening on \(http[^ ]*\).*/\1/p' "$work/out")
    for client in ethers viem uniswap-ethers uniswap-viem; do
        (cd "$work" && node "$client.mjs" "$url")
        echo "$layer: $client passes"
    done
    "$work/venv/bin/python" "$here/web3_test.py" "$url"
    echo "$layer: web3.py passes"
    "$alloy" "$url"
    echo "$layer: alloy passes"
    (cd "$work/hardhat" && DEVNET_URL="$url" HARDHAT_DISABLE_TELEMETRY_PROMPT=true npx hardhat test --no-compile)
    echo "$layer: hardhat passes"
    kill "$node_pid"
    wait "$node_pid" || true
    node_pid=
done
