#include <cpuid.h>

#include "collectives/reduce/kernel_table.h"

namespace horo::collectives {
namespace {

// Reads the bits of the processor, because __builtin_cpu_supports() of clang 14 to 18 does not know
// these features.
bool has_f16c_movbe_lzcnt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0 || (c & bit_MOVBE) == 0)
    return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

}  // namespace

// The avx512 table is compiled for the level x86-64-v4, and the avx2 table for x86-64-v3. This
// function checks single features of the levels, because a virtual machine may hide some of them.
const KernelTable& best_kernel_table() {
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      has_f16c_movbe_lzcnt();
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_v4) return avx512::kTable;
  return has_v3 ? avx2::kTable : portable::kTable;
}

}  // namespace horo::collectives
