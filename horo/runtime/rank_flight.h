#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/topology.h"
#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/flight_directory.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/runtime/job_agreement.h"

namespace horo {

/// The flight recorder of a rank, and its file, while the rank is in the job.
class RankFlight {
 public:
  /// `setting` is HORO_FLIGHT_DIR. `is_process` is true if the job uses MPI, so that each rank is a
  /// process. If it is false, "auto" means no file, and no CrashRecorder is installed. If the file
  /// cannot be created, logs a warning and records in memory. `abort`, which is the abort signal of
  /// the job or null, must outlive this object.
  RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
             const Topology& topology, AbortSignal* abort);

  observe::FlightRecorder& recorder() { return *recorder_; }
  /// Removes the crash recorder. A later crash or end of the process is not recorded.
  void release_process() noexcept { crash_recorder_.reset(); }
  /// The caller must call this function when the job has ended without failure. Removes the file,
  /// unless the user has set a directory.
  void end() noexcept;
  /// If this is rank 0 and its recorder shows a failed or aborted job, returns a text with the
  /// command that shows what the ranks did last. Otherwise returns an empty text. Also returns an
  /// empty text if there is no file, or if hororun has chosen the directory, because hororun then
  /// prints the same command.
  std::string post_mortem_hint() const;

 private:
  int rank_;
  bool has_launcher_;                                // hororun has chosen the directory
  std::optional<observe::FlightLocation> location_;  // not set if there is no file
  std::unique_ptr<observe::FlightRecorder> recorder_;
  std::unique_ptr<observe::CrashRecorder> crash_recorder_;
};

/// Records the failure of horo::init() with the reason `why` in the flight recorder file of this
/// rank, which hororun reads. `environment` has "NAME=VALUE" entries. Does nothing if Open MPI's
/// mpirun did not start the process, if HORO_FLIGHT_DIR is unset, "auto" or "off", or if the rank
/// already has a recorder with this file.
void record_failed_init(const std::vector<std::string>& environment, std::string_view why) noexcept;

/// Records a wait in horo::init() that timed out, under the same conditions. `why` is the reason,
/// which names the ranks that this rank waited for, if they are known.
void record_wait_in_init(const std::vector<std::string>& environment,
                         std::string_view why) noexcept;

}  // namespace horo
