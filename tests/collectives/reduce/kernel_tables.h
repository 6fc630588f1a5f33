#pragma once

#include <vector>

#include "collectives/reduce/kernel_table.h"

namespace horo::collectives {

/// The kernel tables that this machine can run.
inline std::vector<const KernelTable*> runnable_tables() {
  std::vector<const KernelTable*> tables{&portable::kTable};
#if defined(__x86_64__)
  if (&best_kernel_table() != &portable::kTable) tables.push_back(&avx2::kTable);
  if (&best_kernel_table() == &avx512::kTable) tables.push_back(&avx512::kTable);
#endif
  return tables;
}

}  // namespace horo::collectives
