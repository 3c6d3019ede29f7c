#!/bin/sh
# Installs what building with the feature `rocksdb` needs beside Rust: a C++ compiler and libclang.
# Debian and Ubuntu only; elsewhere install clang's library by other means and set LIBCLANG_PATH.
set -eu

case ${1:-} in
    -h | --help)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
esac

missing=""
command -v c++ >/dev/null 2>&1 || missing="$missing g++"
if ! ls "${LIBCLANG_PATH:-/nonexistent}"/libclang*.so* /usr/lib/llvm-*/lib/libclang.so* \
    /usr/lib/*/libclang*.so* /usr/lib64/libclang.so* 2>/dev/null | grep -qv libclang-cpp; then
    missing="$missing libclang-dev"
fi

if [ -z "$missing" ]; then
    echo "nothing to install"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "please install:$missing" >&2
    exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
$sudo apt-get update
# shellcheck disable=SC2086 # a list of packages
$sudo apt-get install -y --no-install-recommends $missing
