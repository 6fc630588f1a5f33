#include "collectives/reduce/kernel_table.h"

namespace horo::collectives {

// The avx512 table is compiled for the level x86-64-v4, and the avx2 table for x86-64-v3. This
// function checks single features of the levels, because a virtual machine may hide some of them.
const KernelTable& best_kernel_table() {
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") &&
                      __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt") &&
                      __builtin_cpu_supports("movbe");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_v4) return avx512::kTable;
  return has_v3 ? avx2::kTable : portable::kTable;
}

}  // namespace horo::collectives
