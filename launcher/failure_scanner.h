#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The failed rank that ended a job.
struct RankFailure {
  int rank = 0;
  std::string host;  ///< empty: unknown
  /// "was killed by signal 9 (Killed)", "exited with code 7", "called MPI_Abort with code 9"
  std::string how;
  int exit_code = 1;           ///< as shells give it: 137, 7, 9
  std::string last_line = {};  ///< the last line of its standard error; empty: unknown
};

/// Finds the report of Open MPI 4 about the first failed rank in the standard error of mpirun.
/// Needed for ranks whose end no runner reports (RankEnd), such as ranks on a lost host. Used by
/// one thread.
class FailureScanner {
 public:
  /// Reads the next part of the stream. A line may be split over several calls.
  void feed(std::string_view bytes);

  /// The first failure reported so far.
  const std::optional<RankFailure>& failure() const { return failure_; }
  /// Whether Open MPI has reported that it aborts the job.
  bool is_aborting() const { return is_aborting_; }
  /// The first line that ssh writes when it cannot start a command on another host.
  const std::optional<std::string>& remote_shell_error() const { return remote_shell_error_; }
  /// The host of a daemon to which mpirun lost its connection.
  const std::optional<std::string>& lost_host() const { return lost_host_; }

 private:
  void read_line(std::string_view line);

  std::string line_;
  std::optional<RankFailure> failure_;
  bool is_aborting_ = false;
  std::optional<std::string> remote_shell_error_;
  std::optional<std::string> lost_host_;
  std::optional<int>
      aborting_rank_;               ///< from the report of MPI_Abort, whose next line has the code
  std::optional<int> exited_rank_;  ///< from the report of an exit code, likewise
  std::optional<int> improper_rank_;  ///< exited without MPI_Init or MPI_Finalize, likewise
};

/// "rank 1 (host b) was killed by signal 9 (Killed)".
std::string describe(const RankFailure& failure);

}  // namespace horo
