#pragma once

#include <cstdint>

namespace horo::observe {

/// Identifies one delivery of a signal to a thread of this process. 0 means none. A value can
/// repeat only after 2^24 claims.
using Fault = std::uint64_t;

/// The result of claim_fault(). `outer` is the earlier fault of the same thread that `fault` has
/// replaced, or 0.
struct FaultClaim {
  Fault fault = 0, outer = 0;
};

/// Returns the witness: a signal that this thread usually blocks only while the handler of `signal`
/// runs. If the thread blocks `signal` now, as is usual in a handler, the witness is `signal`
/// itself. Otherwise (SA_NODEFER), this function blocks a real-time signal and returns it, or
/// returns 0 if the thread blocks all real-time signals already. Must be called from the handler.
/// Async-signal-safe.
int block_witness(int signal);

/// A process has at most one claimed fault at a time, and its recorders show only this fault. The
/// functions below are thread-safe and async-signal-safe.
///
/// Claims a fault for the calling thread, which handles `signal`. `witness` is the result of
/// block_witness(). If `witness` is 0, the thread is assumed to handle the fault until the thread
/// calls release_fault() or ends. Replaces an earlier claim of the same thread, and a claim of a
/// thread that no longer handles its fault. Returns a claim with fault 0 if another thread still
/// handles the claimed fault.
FaultClaim claim_fault(int signal, int witness);
/// Returns the claimed fault, or 0.
Fault claimed_fault();
/// Returns the signal of `fault`, or 0 if `fault` is 0.
int signal_of(Fault fault);
/// Whether the thread of `fault` still runs the handler of the signal. Returns true if that cannot
/// be determined. `fault` must not be 0.
bool is_handled_now(Fault fault);
/// Makes `claim.outer` the claimed fault again, because its handler may still be running. If
/// `claim.outer` is 0, no fault is claimed afterwards. Changes nothing and returns false if
/// `claim.fault` is not the claimed fault.
bool release_fault(const FaultClaim& claim);

}  // namespace horo::observe
