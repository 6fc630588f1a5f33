#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace horo {

/// How the process of a rank ended, as its runner saw it (rank_command()).
struct RankEnd {
  int rank = 0;
  pid_t pid = -1;
  std::string host = {};
  int wait_status = 0;
  std::string last_line = {};  ///< that it wrote to its standard error, printable; empty: none
};

/// "exited with code 7", "was killed by signal 9 (Killed)".
std::string describe(const RankEnd& end);

/// The report as bytes for standard error.
std::string encode(const RankEnd& end);

/// Takes the runners' reports out of the ranks' standard error, fed in any pieces.
class RankEndReader {
 public:
  /// `bytes` without the reports. Bytes of a report that is not complete are kept.
  std::string without_reports(std::string_view bytes);
  /// The bytes of a report that was not complete at the end of the stream.
  std::string take_rest() { return std::exchange(report_, {}); }
  /// The reports so far, in the order of their arrival.
  const std::vector<RankEnd>& ends() const { return ends_; }

 private:
  std::string report_;  // incomplete; empty: none
  std::vector<RankEnd> ends_;
};

}  // namespace horo
