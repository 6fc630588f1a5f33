#pragma once

#include <cstdint>

namespace horo::observe {

/// A signal that a thread of this process handles; no two are equal. 0: none.
using Fault = std::uint64_t;

/// Of several faults of one process its records show one at a time: the one that is claimed. All
/// functions are thread-safe and async-signal-safe.
///
/// Claims one of the calling thread, which has `witness` blocked as long as it is in the handler
/// and no longer; siglongjmp() unblocks it too. What the thread has claimed before is over. 0:
/// another thread still handles the fault that it has claimed.
Fault claim_fault(int signal, int witness);
Fault claimed_fault();
/// 0: of no fault.
int signal_of(Fault fault);
/// Whether its thread is still in the handler, or that cannot be seen.
bool is_handled_now(Fault fault);
/// False: it is not the one that is claimed any more.
bool release_fault(Fault fault);

}  // namespace horo::observe
