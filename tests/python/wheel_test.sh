#!/usr/bin/env bash
# usage: wheel_test.sh SOURCE BUILD PYTHON
# Makes the wheel, installs it into an empty folder, and runs the operations of tests/python on 2 ranks.
set -euo pipefail
source=$1 build=$2 python=$3
"$python" -c 'import setuptools, wheel, pip; assert int(setuptools.__version__.split(".")[0]) >= 61' 2> /dev/null || {
  echo "SKIPPED: $python has no pip, setuptools 61 or wheel; scripts/install_deps.sh --ci installs them"
  exit 0
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$source/scripts/make_wheel.sh" --build "$build" --python "$python" --out "$folder"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$folder/installed" "$folder"/horo-*.whl
cd "$folder"
unset LD_LIBRARY_PATH
export PYTHONPATH=$folder/installed
"$build/bin/hororun" -np 2 "$python" "$source/tests/python/operations_job.py"
