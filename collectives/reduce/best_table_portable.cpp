#include "collectives/reduce/kernel_table.h"

namespace horo::collectives {

const KernelTable& best_kernel_table() { return portable::kTable; }

}  // namespace horo::collectives
