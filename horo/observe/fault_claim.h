#pragma once

#include <cstdint>

namespace horo::observe {

/// A signal that a thread of this process handles; no two are equal. 0: none.
using Fault = std::uint64_t;

/// `outer`: the earlier claim of the same thread that the claim of `fault` replaced; 0: none.
struct FaultClaim {
  Fault fault = 0, outer = 0;
};

/// Of several faults of one process its records show one at a time: the one that is claimed. All
/// functions are thread-safe and async-signal-safe.
///
/// Records that the calling thread handles `signal`. `witness` is a signal that stays blocked in
/// this thread only while the handler runs; 0: the handler runs until it returns. Replaces an
/// earlier claim of the thread. Returns fault 0 if another thread still handles its fault.
FaultClaim claim_fault(int signal, int witness);
Fault claimed_fault();
/// 0: of no fault.
int signal_of(Fault fault);
/// Whether its thread is still in the handler, or that cannot be seen.
bool is_handled_now(Fault fault);
/// Claims `claim.outer` again, which the thread may still handle. Returns false if `claim.fault` is
/// no longer the one that is claimed.
bool release_fault(const FaultClaim& claim);

}  // namespace horo::observe
