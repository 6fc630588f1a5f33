#pragma once

#include <cstdint>

namespace horo::observe {

/// Identifies one signal that a thread of this process handles. No two values are equal. 0: none.
using Fault = std::uint64_t;

/// `outer`: the earlier claim of the same thread that `fault` replaced; 0: none.
struct FaultClaim {
  Fault fault = 0, outer = 0;
};

/// Returns a signal that this thread blocks only while the handler of `signal` runs: the witness.
/// The witness is `signal` itself, unless the action of `signal` has SA_NODEFER. In that case, it
/// is another signal, which this function blocks. Returns 0 if there is none. Must be called from
/// the handler. Async-signal-safe.
int block_witness(int signal);

/// The recorder stores one fault of a process at a time: the claimed one. All functions are
/// thread-safe and async-signal-safe.
///
/// Claims a fault for the calling thread, which handles `signal`. `witness`: the result of
/// block_witness(); 0: the handler is assumed to run until it returns. Replaces an earlier claim of
/// the same thread, and a claim of a thread that no longer handles its fault. Returns fault 0 if
/// another thread still handles its fault.
FaultClaim claim_fault(int signal, int witness);
/// The fault that is claimed now; 0: none.
Fault claimed_fault();
/// The signal of `fault`; 0 if `fault` is 0.
int signal_of(Fault fault);
/// Whether the fault's thread still runs the handler. Returns true if that cannot be determined.
bool is_handled_now(Fault fault);
/// Restores `claim.outer`, whose handler may still run. Returns false if `claim.fault` is no longer
/// the claimed fault.
bool release_fault(const FaultClaim& claim);

}  // namespace horo::observe
