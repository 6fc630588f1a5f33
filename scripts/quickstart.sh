#!/usr/bin/env bash
# From a clean machine to a trained network: installs the packages, builds the launcher and one example, and trains a
# classifier of handwritten digits on several ranks of this machine, on its CPUs.
#
# usage: scripts/quickstart.sh [--ranks N] [--epochs N] [--data DIR] [--no-install] [--build-dir DIR]
#   --ranks N         default 2
#   --epochs N        default 2
#   --data DIR        the four MNIST files (.gz or not); default: digits that the program draws
#   --no-install      do not install packages, for example without root
#   --build-dir DIR   a build that is already configured; default: build/quickstart, which this script configures
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
  echo "quickstart.sh: $1" >&2
  exit 2
}

ranks=2 epochs=2 install=yes data=() build=
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --no-install) install=no; shift ;;
    --ranks | --epochs | --data | --build-dir)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case "$1" in
        --ranks) ranks=$2 ;;
        --epochs) epochs=$2 ;;
        --data) data=(--data "$2") ;;
        --build-dir) build=$2 ;;
      esac
      shift 2 ;;
    *) refuse "unknown option '$1'; quickstart.sh --help lists them" ;;
  esac
done
[[ $ranks =~ ^[1-9][0-9]?$ ]] || refuse "--ranks $ranks: the number of ranks must be a whole number from 1 to 99"
[[ $epochs =~ ^[1-9][0-9]{0,2}$ ]] || refuse "--epochs $epochs: the number of epochs must be a whole number from 1 to 999"
[ ${#data[@]} -eq 0 ] || [ -d "${data[1]}" ] || refuse "--data ${data[1]}: there is no such directory"
[ -z "$build" ] || [ -f "$build/CMakeCache.txt" ] || refuse "--build-dir $build: CMake has not configured it"
build=${build#"$PWD/"}

step() { printf '\n== step %s of 4: %s\n' "$1" "$2"; }

SECONDS=0
echo "Takes about 3 minutes on 2 cores. Needs Debian 12 or Ubuntu 24.04, 1 GB of disk and 2 GB of memory."

if [ $install = yes ]; then
  step 1 "install the packages (150 MB to download on a bare system; --no-install leaves this step out)"
  scripts/install_deps.sh --no-tests || {
    echo "quickstart.sh: the packages cannot be installed; if they are there already, add --no-install" >&2
    exit 1
  }
else
  step 1 "install the packages: left out (--no-install)"
fi

if [ -z "$build" ]; then
  build=build/quickstart
  step 2 "configure $build"
  cmake --preset quickstart
else
  step 2 "configure: left out (--build-dir $build)"
fi

step 3 "build hororun and train_mnist"
NINJA_STATUS='[%f of %t, %es] ' cmake --build "$build" --target hororun train_mnist

train=("$build/bin/hororun" -np "$ranks" "$build/bin/train_mnist" --epochs "$epochs" --global-batch 128 "${data[@]}")
step 4 "train on $ranks rank$([ "$ranks" = 1 ] || echo s)"
echo "+ ${train[*]}"
"${train[@]}"

cat <<EOF

Done in $((SECONDS / 60)) min $((SECONDS % 60)) s. What to try next:
  train on 4 ranks:            $build/bin/hororun -np 4 $build/bin/train_mnist
  list the options:            $build/bin/hororun --help; $build/bin/train_mnist --help
  write a first program:       docs/getting_started.md
  build everything, optimised: scripts/install_deps.sh; cmake --preset release && cmake --build --preset release
EOF
