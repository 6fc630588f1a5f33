#pragma once

#include <cstdint>

namespace horo::observe {

/// Identifies one signal that a thread of this process handles, or is 0. A value is reused after
/// 2^24 signals at the earliest.
using Fault = std::uint64_t;

/// The result of claim_fault(). `outer` is the earlier fault of the same thread that `fault`
/// replaced, or 0.
struct FaultClaim {
  Fault fault = 0, outer = 0;
};

/// Returns the witness: a signal that this thread blocks only while the handler of `signal` runs.
/// The witness is `signal` itself, unless the action of `signal` has SA_NODEFER. In that case, the
/// witness is another signal, which this function blocks. Returns 0 if no signal is available. Must
/// be called from the handler. Async-signal-safe.
int block_witness(int signal);

/// The recorder stores only one fault of a process at a time: the claimed fault. The functions
/// below are thread-safe and async-signal-safe.
///
/// Claims a fault for the calling thread, which handles `signal`. `witness` is the result of
/// block_witness(). If `witness` is 0, the thread is assumed to handle the fault until it calls
/// release_fault() or ends. Replaces an earlier claim of the same thread, and a claim of a thread
/// that no longer handles its fault. Returns a claim with fault 0 if another thread still handles
/// the claimed fault.
FaultClaim claim_fault(int signal, int witness);
/// The claimed fault, or 0.
Fault claimed_fault();
/// The signal of `fault`; 0 if `fault` is 0.
int signal_of(Fault fault);
/// Whether the fault's thread still runs the handler of the signal. Returns true if that cannot be
/// determined.
bool is_handled_now(Fault fault);
/// Makes `claim.outer`, whose handler may still be running, the claimed fault again. Changes
/// nothing and returns false if `claim.fault` is no longer the claimed fault.
bool release_fault(const FaultClaim& claim);

}  // namespace horo::observe
