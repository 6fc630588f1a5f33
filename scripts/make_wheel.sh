#!/usr/bin/env bash
# Makes a Python wheel of horo from a build: the package of horo/python with libhoro_c.so and libhoro.so. The wheel is for machines
# with the libraries that this build uses (MPI, fmt, spdlog), as the packages of Debian are.
#
# usage: scripts/make_wheel.sh [--build DIR] [--python PYTHON] [--out DIR]
#   --build DIR       a complete build                             (default build/release)
#   --python PYTHON   an interpreter with pip                      (default python3)
#   --out DIR         receives horo-VERSION-py3-none-PLATFORM.whl  (default build/wheel)
#
# pip downloads setuptools, unless the interpreter has setuptools 61 or later and wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
  echo "make_wheel.sh: $1" >&2
  exit 2
}

build=build/release python=python3 out=build/wheel
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --build | --python | --out)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      declare "${1#--}=$2"
      shift 2 ;;
    *) refuse "unknown option '$1'; see --help" ;;
  esac
done
[ -f "$build/cmake_install.cmake" ] || refuse "$build is no build of horo; run cmake --preset release && cmake --build --preset release"
"$python" -m pip --version > /dev/null 2>&1 || refuse "$python has no pip; install python3-pip, or pass --python with the interpreter of a virtual environment"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
for component in horo c; do
  cmake --install "$build" --prefix "$stage/prefix" --component $component > /dev/null
done
cp -r horo/python "$stage/package"
mkdir -p "$stage/package/horo/lib"
# The names that the dynamic linker looks for, as files: a wheel has no links.
find "$stage/prefix" -name 'libhoro*.so.*.*' | while read -r library; do
  name=$(basename "$library")
  if [[ $name =~ \.so\.[0-9]+\.[0-9]+$ ]]; then cp -L "$library" "$stage/package/horo/lib/$name"; fi
done
[ -f "$stage/package/horo/lib/libhoro_c.so.0.1" ] || refuse "$build has no libhoro_c.so.0.1; build it with HORO_BUILD_C"
{
  echo "[tool.distutils.bdist_wheel]"
  echo "plat_name = \"linux_$(uname -m)\""
} >> "$stage/package/pyproject.toml"
isolation=()
"$python" -c 'import setuptools, wheel; assert int(setuptools.__version__.split(".")[0]) >= 61' 2> /dev/null && isolation=(--no-build-isolation)
mkdir -p "$out"
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps ${isolation[@]+"${isolation[@]}"} --wheel-dir "$out" "$stage/package"
ls "$out"/horo-*.whl
