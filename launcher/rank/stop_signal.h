#pragma once

#include <csignal>

namespace horo {

/// The signal by which hororun tells the ranks that they should end in order. mpirun forwards it to
/// the process group of every rank, and the runner (rank_command()) sends SIGTERM to that group.
/// hororun does not send SIGTERM to mpirun for this purpose, because mpirun kills the ranks one
/// second after it. Programs ignore this signal by default.
inline constexpr int kStopSignal = SIGURG;

/// The variable of Open MPI that makes mpirun forward the signal, and its value.
inline constexpr const char* kForwardedSignalsVariable = "OMPI_MCA_ess_base_forward_signals";
inline constexpr const char* kForwardedSignals = "SIGURG";

}  // namespace horo
