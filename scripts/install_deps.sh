#!/usr/bin/env bash
# Installs what horo needs to build, test and run, from the packages of Debian 12 (or Ubuntu 24.04 and later).
#
# usage: scripts/install_deps.sh [--ci|--dev]
#   --ci    also what .ci/run checks with: clang with libFuzzer, clang-format
#   --dev   that and what else its developers use: clang-tidy, ccache, valgrind, gdb, iperf3
#
# Does nothing if all is there; otherwise runs apt-get, as root or through sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build git                # build
  libopenmpi-dev openmpi-bin               # ranks
  libboost-program-options-dev libfmt-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev
  libdnnl-dev                              # convolutions and matrix products on CPUs
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-matplotlib               # scripts
  iproute2                                 # emulated hosts (cluster_lab.sh) and their tests
)
for_ci=(clang libclang-rt-dev clang-format-14)  # libFuzzer is in libclang-rt
case "${1:-}" in
  "") ;;
  --ci) packages+=("${for_ci[@]}") ;;
  --dev) packages+=("${for_ci[@]}" clang-tidy-14 ccache valgrind gdb iperf3) ;;
  *) echo "install_deps.sh: unknown option '$1'; usage: scripts/install_deps.sh [--ci|--dev]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install_deps.sh: this system has no apt-get; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install_deps.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: not root, and there is no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install_deps.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
  --no-install-recommends "${missing[@]}"
echo "install_deps.sh: done"
