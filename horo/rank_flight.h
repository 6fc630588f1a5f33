#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/topology.h"
#include "horo/clock_offset.h"
#include "horo/observe/crash_recorder.h"
#include "horo/observe/flight_directory.h"
#include "horo/observe/flight_recorder.h"

namespace horo {

/// A rank's flight recorder and its file, from joining the job to leaving it.
class RankFlight {
 public:
  /// `setting`: HORO_FLIGHT_DIR. `is_process`: the rank is a process that a launcher started; if it
  /// is not, "auto" means no file. If the file cannot be made, that is a warning. `abort`: the
  /// job's, may be null. It outlives this, or the call of release_process().
  RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
             const Topology& topology, AbortSignal* abort);

  observe::FlightRecorder& recorder() { return *recorder_; }
  /// From now on the end of the process is not recorded.
  void release_process() noexcept { crash_recorder_.reset(); }
  /// The job has ended well: the file is removed, unless the user had named the directory.
  void end() noexcept;
  /// What to say of the files to the user of a job that failed; empty if there is nothing to say.
  std::string farewell() const;

 private:
  int rank_;
  std::optional<observe::FlightPlace> place_;  // none: no file
  std::unique_ptr<observe::FlightRecorder> recorder_;
  std::unique_ptr<observe::CrashRecorder> crash_recorder_;
};

/// Leaves the reason why horo::init() failed where the job's flight recorders write, so that the
/// launcher finds it. `environment`: "NAME=VALUE" entries. Does nothing if no launcher has started
/// the process, if HORO_FLIGHT_DIR names no place that the ranks share, or if the rank has a
/// recorder there already.
void record_failed_init(const std::vector<std::string>& environment, std::string_view why) noexcept;

/// Records a wait in horo::init() that timed out, under the same conditions. `why` names the ranks
/// that did not call it.
void record_wait_in_init(const std::vector<std::string>& environment,
                         std::string_view why) noexcept;

}  // namespace horo
