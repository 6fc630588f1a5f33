#!/usr/bin/env bash
# Builds horo on a machine with a GPU, runs every test that needs one, and runs the benchmarks. Takes at most
# ten minutes and uses no network. Continues after a failed step; prints a table at the end.
#
# usage: scripts/gpu_check.sh [--deps DIR] [--out DIR] [--build DIR] [--limit SECONDS] [--dry-run]
#   --deps DIR    MPI, Boost, GoogleTest and the other packages that the machine lacks, built elsewhere;
#                 DIR/env.sh is sourced (docs/guides/gpu.md)
#   --out DIR     logs, figures and gpu_check.json         (default build/gpu_check_results)
#   --build DIR   where horo is built                      (default build/gpu_check)
#   --limit N     seconds for all steps together           (default 570)
#   --dry-run     prints the steps with their limits, and runs nothing
#
# Exit code: 0 if no step failed, 1 if one did, 2 for wrong usage, 77 without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

refuse() {
  echo "gpu_check.sh: $1" >&2
  exit 2
}

deps='' out=build/gpu_check_results build=build/gpu_check limit=570 dry_run=no
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --dry-run) dry_run=yes; shift ;;
    --deps | --out | --build | --limit)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case "$1" in
        --deps) deps=$2 ;;
        --out) out=$2 ;;
        --build) build=$2 ;;
        --limit) limit=$2 ;;
      esac
      shift 2 ;;
    *) refuse "unknown option '$1'; gpu_check.sh --help lists them" ;;
  esac
done
[[ $limit =~ ^[1-9][0-9]{0,4}$ ]] || refuse "--limit $limit: the number of seconds must be a whole number from 1 to 99999"
[ -z "$deps" ] || [ -r "$deps/env.sh" ] || refuse "--deps $deps: there is no env.sh in it"

# The steps in order: name, seconds, command. Exit code 77 means that a step was skipped; it prints the reason.
names=() limits=() commands=()
step() {
  names+=("$1") limits+=("$2") commands+=("$3")
}

at_build=$(printf %q "$build") at_out=$(printf %q "$out")
tests="NCCL_DEBUG=WARN HORO_TEST_GPU=required ctest --test-dir $at_build -L gpu --no-tests=error --output-on-failure"
unset CUDA_LAUNCH_BLOCKING # NCCL's kernels wait for later calls
sanitize() { # TOOL TEST FILTER
  echo "HORO_TEST_GPU=required compute-sanitizer --error-exitcode 1 --tool $1" \
    "$at_build/tests/$2 '--gtest_filter=$3'"
}
has_sanitizer='command -v compute-sanitizer || { echo "compute-sanitizer is not installed"; exit 77; }'
short=MoveTiles.Float32AsBFloat16:MoveTiles.KeepsInfinitiesAndNan
phases='*LayerNorm*:*GradientNorm*' # of kernels whose threads share memory

step machine 60 'nvidia-smi; uname -a; nproc; free -g; nvcc --version; c++ --version; cmake --version; mpirun --version
python3 -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"; true'
# NCCL and cuDNN may be in the folder of PyTorch.
step configure 60 "nvidia=\$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
cmake -S . -B $at_build -G Ninja -DCMAKE_BUILD_TYPE=Release -DHORO_WITH_CUDA=ON \${nvidia:+-DHORO_PYTHON_NVIDIA=\$nvidia}"
step build 240 "cmake --build $at_build --target horo_gpu_tests device_bench train_step_bench train_mnist train_cifar"
step tests.device 90 "$tests -E _ranks"
step tests.1_rank 90 "$tests -R [.]1_ranks"
step tests.2_ranks 160 "$tests -R [.]2_ranks"
step memcheck 60 "$has_sanitizer
$(sanitize memcheck gpu_device_test Streams.CopyAndFill) && $(sanitize memcheck gpu_move_tiles_test "$short") &&
$(sanitize memcheck gpu_agreement_test "$phases")"
step racecheck 60 "$has_sanitizer
$(sanitize racecheck gpu_agreement_test "$phases")"
step device_bench 100 "$at_build/bin/device_bench --json $at_out/device_bench.json"
step train_step_bench 60 "$at_build/bin/train_step_bench --json $at_out/train_step_bench.json"
step train_step_f32 40 "$at_build/bin/train_step_bench --precision float32 --only resnet --json $at_out/train_step_bench_float32.json"
step train 60 "$at_build/bin/train_mnist --device cuda --epochs 1 --json $at_out/train_mnist.json &&
$at_build/bin/train_cifar --device cuda --precision bfloat16 --epochs 2 --json $at_out/train_cifar.json"
step baseline 200 "python3 scripts/gpu_baseline.py --json $at_out/baseline.json"

if [ $dry_run = yes ]; then
  echo "within $limit s in all:"
  for i in "${!names[@]}"; do printf '%-14s %4s s  %s\n' "${names[$i]}" "${limits[$i]}" "${commands[$i]//$'\n'/; }"; done
  exit 0
fi

if ! gpus=$(nvidia-smi -L 2>/dev/null) || [[ $gpus != *GPU* ]]; then
  echo "gpu_check.sh: there is no GPU here (nvidia-smi lists none), nothing was run"
  exit 77
fi

if [ -n "$deps" ]; then
  set +u
  # shellcheck source=/dev/null
  . "$deps/env.sh" || refuse "--deps $deps: env.sh failed"
  set -u
fi
mkdir -p "$out" || refuse "--out $out cannot be made"

# SECONDS is bash's clock.
SECONDS=0
failed=0
table='' rows=''
for i in "${!names[@]}"; do
  name=${names[$i]}
  log=$out/$name.log
  began=$SECONDS
  seconds=$((limit - began < limits[i] ? limit - began : limits[i]))
  code=124
  if [ $seconds -gt 0 ]; then
    timeout -k 5 "$seconds" bash -c "${commands[$i]}" >"$log" 2>&1
    code=$?
  else
    echo "no time was left for it" >"$log"
  fi
  took=$((SECONDS - began))
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result='out of time' failed=$((failed + 1)) ;;
    *) result=failed failed=$((failed + 1)) ;;
  esac
  echo "== $name: $result after $took s"
  tail -n 20 "$log"
  table+=$(printf '%-14s %-12s %4s s  %s' "$name" "$result" "$took" "$log")$'\n'
  rows+=$(printf '%s\n    {"name": "%s", "result": "%s", "code": %d, "seconds": %d, "limit": %d}' "${rows:+,}" "$name" "$result" "$code" "$took" "${limits[$i]}")
done

gpus=${gpus//[\"\\]/}
printf '{\n  "gpus": "%s",\n  "seconds": %d,\n  "failed": %d,\n  "steps": [%s\n  ]\n}\n' \
  "${gpus//$'\n'/; }" "$SECONDS" "$failed" "$rows" >"$out/gpu_check.json"
printf '\n%s\n%s%s of %s steps failed, %s s; %s\n' "$gpus" "$table" "$failed" "${#names[@]}" "$SECONDS" "$out/gpu_check.json"
[ "$failed" -eq 0 ]
