#!/usr/bin/env bash
# Configures, builds and tests horo.
#
# usage: scripts/test.sh [--build] [PRESET...] [-- CTEST ARGUMENTS]
#   scripts/test.sh                       the preset release
#   scripts/test.sh asan tsan             both sanitizers, one after the other
#   scripts/test.sh release -- -R ring    only the tests whose name contains "ring"
#   scripts/test.sh --build asan          builds, and runs no test
#
# Presets: release debug cpu asan tsan ci (CMakePresets.json). Stops at the first that fails. After each preset, lists the
# skipped tests with the reasons.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=()
runs_tests=yes
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build) runs_tests=no; shift; continue ;;
    -*) echo "test.sh: unknown option '$1'; arguments for ctest go after --" >&2; exit 2 ;;
  esac
  presets+=("$1")
  shift
done
[ $# -eq 0 ] || shift
[ ${#presets[@]} -gt 0 ] || presets=(release)

for preset in "${presets[@]}"; do
  echo "== $preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset"
  [ $runs_tests = yes ] || continue
  status=0
  ctest --preset "$preset" "$@" || status=$?
  python3 scripts/skipped_tests.py "build/$preset"
  [ $status -eq 0 ] || exit $status
done
