#!/usr/bin/env bash
# Installs what horo needs to build, test and run, from the packages of Debian 12 (or Ubuntu 24.04 and later).
#
# usage: scripts/install_deps.sh [--no-tests|--ci|--dev]
#   --no-tests   only what the libraries and programs need to build and run, as scripts/quickstart.sh does
#   --ci         also the tools of .ci/run: clang with libFuzzer, clang-format, MPICH, pip, Doxygen and Sphinx
#   --dev        as --ci, and the other tools of developers: clang-tidy, ccache, valgrind, gdb, iperf3
#
# Does nothing if everything is installed; otherwise runs apt-get, as root or through sudo.
set -euo pipefail

packages=(
  g++ cmake ninja-build make               # build; make: CMake's default for the user's own project
  libopenmpi-dev openmpi-bin               # ranks
  libboost-program-options-dev libfmt-dev libspdlog-dev nlohmann-json3-dev zlib1g-dev
  libpng-dev libjpeg-dev                   # images of data sets (optional)
  libdnnl-dev                              # convolutions and matrix products on CPUs
)
for_tests=(
  git libgtest-dev libgmock-dev pkg-config
  libdlpack-dev libeigen3-dev libxtensor-dev   # views of tensors of other libraries
  python3 python3-matplotlib               # scripts
  iproute2                                 # emulated hosts (cluster_lab.sh) and their tests
)
# libFuzzer is in libclang-rt. Some tests run under MPICH's launcher; mpirun remains that of Open MPI.
for_ci=(clang libclang-rt-dev clang-format-14 mpich python3-pip python3-setuptools python3-wheel
        doxygen python3-sphinx python3-myst-parser python3-breathe furo python3-sphinx-copybutton)   # the site
for_developers=(clang-tidy-14 ccache valgrind gdb iperf3)
case "${1:-}" in
  "") packages+=("${for_tests[@]}") ;;
  -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  --no-tests) ;;
  --ci) packages+=("${for_tests[@]}" "${for_ci[@]}") ;;
  --dev) packages+=("${for_tests[@]}" "${for_ci[@]}" "${for_developers[@]}") ;;
  *) echo "install_deps.sh: unknown option '$1'; install_deps.sh --help lists them" >&2; exit 2 ;;
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
