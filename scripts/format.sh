#!/usr/bin/env bash
# Formats the C++ sources with clang-format 14 (other versions format differently).
#
# usage: scripts/format.sh [--check]
#   --check   change nothing; name what is not formatted and exit with 1
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
case "${1:-}" in
  "") ;;
  -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  --check) mode=(--dry-run --Werror) ;;
  *) echo "format.sh: unknown option '$1'; usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
if ! command -v clang-format-14 >/dev/null; then
  echo "format.sh: clang-format-14 is not installed; scripts/install_deps.sh --dev installs it" >&2
  exit 1
fi
git ls-files -z --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' | xargs -0 -r clang-format-14 "${mode[@]}"
