#!/usr/bin/env bash
# Builds horo on a machine with a GPU, runs every test that needs one, measures, and compares the figures with their goals
# and with PyTorch. Uses no network. Continues after a failed step; prints a table at the end.
#
# usage: scripts/gpu_check.sh [OPTIONS]
#   --half N       1: build and tests; 2: benchmarks and PyTorch, with the programs that half 1 built. Each half takes less
#                  than nine minutes. Default: both, one after the other
#   --deps PATH    libraries that the machine lacks: the archive of scripts/make_gpu_bundle.sh, which is unpacked into the
#                  build folder, or a folder with an env.sh (docs/guides/gpu.md)
#   --out DIR      receives one archive with all logs and figures  (default build/gpu_check_results)
#   --build DIR    where horo is built                             (default build/gpu_check)
#   --limit N      seconds for all steps of a half together        (default 535)
#   --slower N     multiplies all limits by N, for a machine with fewer than 16 cores
#   --without-gpu  leaves out the steps that need a GPU
#   --dry-run      prints the steps with their limits, and runs nothing
#
# Exit code: 0 if no step failed, 1 if one did, 2 for wrong usage, 77 if steps were left out because there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

refuse() {
  echo "gpu_check.sh: $1" >&2
  exit 2
}

half='' deps='' out=build/gpu_check_results build=build/gpu_check limit=535 slower=1 has_gpu=yes dry_run=no
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --dry-run) dry_run=yes; shift ;;
    --without-gpu) has_gpu=no; shift ;;
    --half | --deps | --out | --build | --limit | --slower)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      case "$1" in
        --half) half=$2 ;;
        --deps) deps=$2 ;;
        --out) out=$2 ;;
        --build) build=$2 ;;
        --limit) limit=$2 ;;
        --slower) slower=$2 ;;
      esac
      shift 2 ;;
    *) refuse "unknown option '$1'; gpu_check.sh --help lists them" ;;
  esac
done
[[ $half =~ ^[12]?$ ]] || refuse "--half $half: the half must be 1 or 2"
[[ $limit =~ ^[1-9][0-9]{0,4}$ ]] || refuse "--limit $limit: the number of seconds must be a whole number from 1 to 99999"
[[ $slower =~ ^[1-9][0-9]?$ ]] || refuse "--slower $slower: the factor must be a whole number from 1 to 99"
limit=$((limit * slower))
[ -n "$half" ] || limit=$((2 * limit))
bundle='' # an archive
if [[ $deps == *.tar.gz ]]; then
  [ -r "$deps" ] || refuse "--deps $deps: there is no such file"
  bundle=$deps deps=$build/deps
elif [ -n "$deps" ]; then
  [ -r "$deps/env.sh" ] || refuse "--deps $deps: there is no env.sh in it"
fi
results=$build/results

# The steps in order: the halves they belong to, gpu if they need one or any, name, seconds, command. Exit code 77 means that
# a step was skipped; the last line of its output is the reason.
names=() needs=() limits=() commands=()
step() {
  [[ $1 == *"$half"* ]] || return 0
  needs+=("$2") names+=("$3") limits+=($(($4 * slower))) commands+=("$5")
}

# Fails if a pattern of a GoogleTest filter matches no test of a program: need_tests PROGRAM FILTER
need_tests() {
  local pattern patterns
  IFS=: read -ra patterns <<<"$2"
  for pattern in "${patterns[@]}"; do
    "$build/tests/$1" --gtest_list_tests "--gtest_filter=$pattern" | grep -q '^  ' ||
      { echo "no test of $1 matches $pattern"; return 1; }
  done
}
# Fails if ctest selects no test with these options: need_ctests OPTION...
need_ctests() {
  ctest --test-dir "$build" -N "$@" | grep -q '^ *Test  *#' || { echo "no test matches ctest $*"; return 1; }
}
export -f need_tests need_ctests
export build

at_build=$(printf %q "$build") at_results=$(printf %q "$results")
tests="NCCL_DEBUG=WARN HORO_TEST_GPU=required ctest --test-dir $at_build -L gpu --no-tests=error --output-on-failure"
unset CUDA_LAUNCH_BLOCKING # NCCL's kernels wait for later calls
filters='need_ctests -L gpu -E _ranks && need_ctests -L gpu -R [.]1_ranks && need_ctests -L gpu -R [.]2_ranks &&
need_ctests -L gpu -R 2_ranks_cumem'
sanitize() { # TOOL TEST FILTER
  filters+=" &&
need_tests $2 '$3'"
  sanitized="HORO_TEST_GPU=required compute-sanitizer --error-exitcode 1 --tool $1 $at_build/tests/$2 '--gtest_filter=$3'"
}
has_sanitizer='command -v compute-sanitizer || { echo "compute-sanitizer is not installed"; exit 77; }'
phases='*LayerNorm*:*GradientNorm*' # of kernels whose threads share memory
sanitize memcheck gpu_device_test Streams.CopyAndFill
memcheck=$sanitized
sanitize memcheck gpu_move_tiles_test MoveTiles.Float32AsBFloat16:MoveTiles.KeepsInfinitiesAndNan
memcheck+=" && $sanitized"
sanitize memcheck gpu_agreement_test "$phases"
memcheck+=" && $sanitized"
sanitize racecheck gpu_agreement_test "$phases"
racecheck=$sanitized
without_gpu='^(cuda_descriptions_test|cuda_lazy_loading_test|nccl_collectives_test|nvtx_range_test)$'
programs=(device_bench train_step_bench train_mnist train_cifar)

# Unpacks an archive once: the build refers to its files, and the second half uses them again. What CMake has found in other
# files is not valid any more.
[ -z "$bundle" ] || step 12 any deps 25 "archive=$(printf %q "$bundle") folder=$(printf %q "$deps")
sum=\$(cksum <\"\$archive\")
if [ \"\$(cat \"\$folder/archive.sum\" 2>/dev/null)\" = \"\$sum\" ]; then echo 'already unpacked'; exit; fi
rm -rf \"\$folder\" $at_build/CMakeCache.txt && mkdir -p \"\$folder\" &&
tar -xzf \"\$archive\" -C \"\$folder\" --strip-components 1 && echo \"\$sum\" >\"\$folder/archive.sum\""
step 12 any machine 15 'nvidia-smi; uname -a; nproc; free -g; nvcc --version; c++ --version; cmake --version; mpirun --version
python3 -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"; true'
# NCCL and cuDNN may be in the folder of PyTorch.
configure="nvidia=\$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
cmake -S . -G Ninja -DCMAKE_BUILD_TYPE=Release -DHORO_WITH_CUDA=ON \${nvidia:+-DHORO_PYTHON_NVIDIA=\$nvidia}"
step 1 any configure 35 "$configure -B $at_build"
step 1 any build 130 "cmake --build $at_build --target horo_gpu_tests cuda_descriptions_test cuda_lazy_loading_test \
nccl_collectives_test nvtx_range_test ${programs[*]}"
step 1 any filters 10 "$filters"
step 1 any tests.without_gpu 15 "ctest --test-dir $at_build -R '$without_gpu' --no-tests=error --output-on-failure"
step 1 gpu tests.device 55 "$tests -E _ranks"
step 1 gpu tests.1_rank 56 "$tests -R [.]1_ranks"
step 1 gpu tests.2_ranks 90 "$tests -R [.]2_ranks"
step 1 gpu memcheck 60 "$has_sanitizer
$memcheck"
step 1 gpu racecheck 40 "$has_sanitizer
$racecheck"
step 2 gpu device_bench 70 "$at_build/bin/device_bench --json $at_results/device_bench.json"
step 2 gpu train_step_bench 50 "$at_build/bin/train_step_bench --json $at_results/train_step_bench.json"
step 2 gpu train_step_f32 40 "$at_build/bin/train_step_bench --precision float32 --samples 5 --json $at_results/train_step_bench_float32.json"
step 2 gpu train 50 "$at_build/bin/train_mnist --device cuda --epochs 1 --json $at_results/train_mnist.json &&
$at_build/bin/train_mnist --device cuda --epochs 1 --graph --json $at_results/train_mnist_graph.json &&
$at_build/bin/train_cifar --device cuda --precision bfloat16 --epochs 2 --json $at_results/train_cifar.json"
step 2 gpu baseline 190 "python3 scripts/gpu_baseline.py --json $at_results/baseline.json"
step 2 any verdicts 10 "python3 scripts/gpu_verdicts.py $at_results --json $at_results/verdicts.json"
# The libraries and the programs that train; compiled once more unless the compiler of half 1 was g++ 13.
step 2 any g++-13 85 "if c++ --version | grep -q '^c++.* 13[.]'; then echo 'c++ is g++ 13, which compiled half 1'; exit; fi
command -v g++-13 || { echo 'g++-13 is not installed'; exit 77; }
export CUDAHOSTCXX=g++-13
$configure -B $at_build-g++-13 -DCMAKE_CXX_COMPILER=g++-13 -DBUILD_TESTING=OFF &&
cmake --build $at_build-g++-13 --target train_cifar"

if [ $dry_run = yes ]; then
  echo "within $limit s in all:"
  for i in "${!names[@]}"; do printf '%-17s %4s s  %s\n' "${names[$i]}" "${limits[$i]}" "${commands[$i]//$'\n'/; }"; done
  exit 0
fi

gpus='without a GPU'
if [ $has_gpu = yes ] && { ! gpus=$(nvidia-smi -L 2>/dev/null) || [[ $gpus != *GPU* ]]; }; then
  echo "gpu_check.sh: there is no GPU here (nvidia-smi lists none), nothing was run; --without-gpu runs what needs none"
  exit 77
fi
gpus=${gpus//$'\n'/; }
gpus=${gpus//[\"\\]/}
if [ "$half" = 2 ]; then
  for program in "${programs[@]}"; do
    [ -x "$build/bin/$program" ] || refuse "$build/bin/$program is missing; run --half 1 on this machine first"
  done
fi

use_deps() {
  set +u
  # shellcheck source=/dev/null
  . "$deps/env.sh" || echo "gpu_check.sh: $deps/env.sh failed" >&2
  set -u
}
[ -z "$deps" ] || [ -n "$bundle" ] || use_deps
rm -rf "$results"
mkdir -p "$results" "$out" || refuse "$results and $out cannot be made"
archive=$out/gpu_check${half:+_half_$half}.tar.gz

# SECONDS is bash's clock.
SECONDS=0
failed=0 left_out=0
table='' rows=''
save() { # also after each step, so that an interrupted run keeps its results
  printf '{\n  "gpus": "%s",\n  "half": "%s",\n  "seconds": %d,\n  "failed": %d,\n  "left_out": %d,\n  "steps": [%s\n  ]\n}\n' \
    "$gpus" "${half:-1 and 2}" "$SECONDS" "$failed" "$left_out" "$rows" >"$results/gpu_check.json"
  tar -C "$results" -czf "$archive.part" . && mv "$archive.part" "$archive"
}
for i in "${!names[@]}"; do
  name=${names[$i]}
  log=$results/$name.log
  began=$SECONDS
  seconds=$((limit - began < limits[i] ? limit - began : limits[i]))
  if [ $has_gpu = no ] && [ "${needs[$i]}" = gpu ]; then
    echo 'needs a GPU' >"$log"
    code=77 left_out=$((left_out + 1))
  elif [ $seconds -gt 3 ]; then
    timeout -k 2 $((seconds - 3)) bash -c "${commands[$i]}" >"$log" 2>&1
    code=$?
  else
    echo 'no time was left for it' >"$log"
    code=124
  fi
  took=$((SECONDS - began)) note=$log
  case $code in
    0) result=passed ;;
    77) result=skipped note=$(tail -n 1 "$log") ;;
    124 | 137) result='out of time' failed=$((failed + 1)) ;;
    *) result=failed failed=$((failed + 1)) ;;
  esac
  [ "$name" != deps ] || use_deps
  echo "== $name: $result after $took s"
  if [ "$name" = verdicts ]; then cat "$log"; else tail -n 20 "$log"; fi
  table+=$(printf '%-17s %-12s %4s s  %s' "$name" "$result" "$took" "$note")$'\n'
  rows+=$(printf '%s\n    {"name": "%s", "result": "%s", "code": %d, "seconds": %d, "limit": %d}' \
    "${rows:+,}" "$name" "$result" "$code" "$took" "${limits[$i]}")
  save
done

printf '\n%s\n%s%s of %s steps failed, %s were left out, %s s; %s\n' \
  "$gpus" "$table" "$failed" "${#names[@]}" "$left_out" "$SECONDS" "$archive"
[ "$failed" -eq 0 ] || exit 1
[ "$left_out" -eq 0 ] || exit 77
