#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace horo {

/// The rank that ended a job, as far as mpirun says.
struct RankFailure {
  int rank = 0;
  std::string host;  ///< empty: not said
  std::string how;   ///< "killed by signal 9 (Killed)", "exit code 7", "MPI_Abort with code 9"
};

/// Looks for Open MPI 4's report of the first failed rank in its standard error, fed in any pieces.
class FailureScanner {
 public:
  void feed(std::string_view bytes);

  /// The first failure reported so far.
  const std::optional<RankFailure>& failure() const { return failure_; }

 private:
  void read_line(std::string_view line);

  std::string line_;
  std::optional<RankFailure> failure_;
  std::optional<int> aborting_rank_;  ///< named by MPI_Abort's report, whose next line has the code
  std::optional<int> exited_rank_;    ///< named by the report of an exit code, likewise
};

/// "rank 1 (host b) ended first: killed by signal 9 (Killed)".
std::string describe(const RankFailure& failure);

}  // namespace horo
