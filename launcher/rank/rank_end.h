#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace horo {

/// How the process of a rank ended, according to the runner of the rank (rank_command()).
struct RankEnd {
  int rank = 0;
  int size = 0;  ///< number of ranks of the job, 0 if unknown
  pid_t pid = -1;
  std::string host = {};
  int wait_status = 0;
  /// Why horo aborted the rank, according to its flight record, printable. Empty if horo did not
  /// abort the rank, or if there is no record.
  std::string abort_reason = {};
  std::string last_line = {};  ///< the last non-blank line of its standard error, printable
};

/// Returns a text such as "exited with code 7" or "was killed by signal 9 (Killed)".
std::string describe(const RankEnd& end);

/// Returns the bytes of the report that the runner writes to standard error. The report begins with
/// a control character that programs rarely write.
std::string encode(const RankEnd& end);

/// Extracts the reports of the runners from the standard error of the ranks.
class RankEndReader {
 public:
  /// Returns `bytes` without reports, and keeps the bytes of an incomplete report for the next
  /// call.
  std::string without_reports(std::string_view bytes);
  /// Returns the bytes of an incomplete report at the end of the stream.
  std::string take_rest() { return std::exchange(report_, {}); }
  /// The reports so far, in order of arrival.
  const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  std::string report_;  // the bytes of an incomplete report, if any
  std::vector<RankEnd> ends_;
};

}  // namespace horo
