#pragma once

#include <memory>
#include <optional>
#include <string>

#include "horo/base/topology.h"
#include "horo/clock_offset.h"
#include "horo/observe/flight_directory.h"
#include "horo/observe/flight_recorder.h"
#include "horo/observe/last_words.h"

namespace horo {

/// A rank's flight recorder and its file, from joining the job to leaving it.
class RankFlight {
 public:
  /// `setting`: HORO_FLIGHT_DIR. `is_process`: the rank is a process that a launcher started; if it
  /// is not, "auto" means no file. If the file cannot be made, that is a warning.
  RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
             const Topology& topology);

  observe::FlightRecorder& recorder() { return *recorder_; }
  /// The job has ended well: the file is removed, unless the user had named the directory.
  void end() noexcept;
  /// What to say of the files to the user of a job that failed; empty if there is nothing to say.
  std::string farewell() const;

 private:
  int rank_;
  std::optional<observe::FlightPlace> place_;  // none: no file
  std::unique_ptr<observe::FlightRecorder> recorder_;
  std::unique_ptr<observe::LastWords> last_words_;
};

}  // namespace horo
