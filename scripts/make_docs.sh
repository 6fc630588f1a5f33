#!/usr/bin/env bash
# Makes the documentation site from docs/ and the public headers. A warning, a symbol without documentation, and a dead link
# are errors. Needs Doxygen, Sphinx, MyST, Breathe and Furo (scripts/install_deps.sh --ci installs them).
#
# usage: scripts/make_docs.sh [--out DIR]
#   --out DIR   receives VERSION/ and index.html, which leads to the newest version there   (default build/site)
#
# Open DIR/index.html in a browser, or copy DIR to a web server. Exit code 77: a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/site
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --out)
      [ $# -ge 2 ] || { echo "make_docs.sh: --out needs a value" >&2; exit 2; }
      out=$2
      shift 2 ;;
    *) echo "make_docs.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done
for tool in doxygen sphinx-build; do
  command -v $tool > /dev/null || { echo "SKIPPED: $tool is missing; run scripts/install_deps.sh --ci" >&2; exit 77; }
done

version=$(sed -n 's/^project(horo VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HORO_DOXYGEN_OUT=$work HORO_HEADERS HORO_DOXYGEN_XML=$work/xml
HORO_HEADERS=$(sed -n 's/^```{doxygenfile} //p' docs/reference/api/*.md | tr '\n' ' ')
rm -rf "${out:?}/$version"
mkdir -p "$out"
doxygen docs/Doxyfile
sphinx-build -q -W --keep-going -c docs -d "$work/doctrees" . "$out/$version"
python3 tests/docs/site_links.py "$out/$version"

newest=$(find "$out" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' -printf '%f\n' | sort -V | tail -n 1)
echo "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0; url=$newest/index.html\"><title>horo</title>" > "$out/index.html"
echo "make_docs.sh: $out/$version"
