#!/usr/bin/env bash
# From a clean machine to a trained network: installs the packages, builds, and trains a digit
# classifier on several ranks of this machine.
#
# usage: scripts/quickstart.sh [--ranks N] [--epochs N] [--data DIR] [--no-install]
#   --ranks N      default 2
#   --epochs N     default 2
#   --data DIR     the four MNIST files (.gz or not); default: digits that the program draws itself
#   --no-install   leave the packages alone
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=2 epochs=2 install=yes data=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --no-install) install=no; shift ;;
    --ranks | --epochs | --data)
      [ $# -ge 2 ] || { echo "quickstart.sh: $1 needs a value" >&2; exit 2; }
      case "$1" in
        --ranks) ranks=$2 ;;
        --epochs) epochs=$2 ;;
        --data) data=(--data "$2") ;;
      esac
      shift 2 ;;
    *) echo "quickstart.sh: unknown option '$1'; quickstart.sh --help lists them" >&2; exit 2 ;;
  esac
done

[ $install = no ] || scripts/install_deps.sh
cmake --preset release
cmake --build --preset release --target hororun train_mnist own_model
bin=build/release/bin
train=("$bin/hororun" -np "$ranks" "$bin/train_mnist" --epochs "$epochs" --global-batch 128 "${data[@]}")
echo "+ ${train[*]}"
"${train[@]}"
