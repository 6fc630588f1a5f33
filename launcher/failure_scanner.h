#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The failed rank that ended a job.
struct RankFailure {
  int rank = 0;
  std::string host;  ///< empty if unknown
  /// For example "was killed by signal 9 (Killed)", "exited with code 7" or "called MPI_Abort with
  /// code 9".
  std::string how;
  int exit_code = 1;              ///< as a shell reports it: 137, 7 and 9 in these examples
  std::string last_line = {};     ///< the last line of the rank's standard error; empty if unknown
  std::string abort_reason = {};  ///< as in RankEnd
};

/// Finds reports of Open MPI 4 in the standard error of mpirun, above all the report about the
/// first failed rank. Needed for ranks whose end no runner reports (RankEnd), such as ranks on a
/// lost host. Must be used by one thread.
class FailureScanner {
 public:
  /// Reads the next part of the stream. A line may be split over several calls.
  void feed(std::string_view bytes);

  /// The first reported failure of a rank, or nullopt if none was reported so far.
  const std::optional<RankFailure>& failure() const { return failure_; }
  /// Whether Open MPI has reported that it aborts the job.
  bool is_aborting() const { return is_aborting_; }
  /// The first line with which ssh reported that it cannot start a command on another host.
  const std::optional<std::string>& remote_shell_error() const { return remote_shell_error_; }
  /// The first host to which mpirun reported a lost connection, if it did so before it reported a
  /// failure.
  const std::optional<std::string>& lost_host() const { return lost_host_; }

 private:
  void read_line(std::string_view line);

  std::string line_;
  std::optional<RankFailure> failure_;
  bool is_aborting_ = false;
  std::optional<std::string> remote_shell_error_;
  std::optional<std::string> lost_host_;
  // The rank in the first line of a report of MPI_Abort, of an exit code, and of an exit without
  // MPI_Init or MPI_Finalize. A later line of the report completes the failure.
  std::optional<int> aborting_rank_;
  std::optional<int> exited_rank_;
  std::optional<int> improper_rank_;
};

/// Returns a text such as "rank 1 (host b) was killed by signal 9 (Killed)".
std::string describe(const RankFailure& failure);

}  // namespace horo
