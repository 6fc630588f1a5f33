#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor/doctor_report.h"
#include "launcher/supervisor.h"

namespace horo {

/// Returns the HORO_FLIGHT_DIR for a job, with which the files of the job can be found afterwards.
/// `setting` is the HORO_FLIGHT_DIR of the user, or empty.
std::string flight_setting_for_job(const std::string& setting);

/// Composes the verdict of hororun on a job that failed. Must be constructed before the job starts.
class JobVerdict {
 public:
  /// `flight_setting` is the job's HORO_FLIGHT_DIR.
  explicit JobVerdict(std::string flight_setting);

  /// The exit code of the job. This is exit_code_of(), except if mpirun crashed, no failure of a
  /// rank was reported, and the flight records show which rank failed first. The exit code then is
  /// 128 + n if that rank crashed with signal n, 1 if its record shows a failure of its own, and
  /// kForcedEndExitCode otherwise, for example if the watchdog ended the rank.
  int exit_code(const JobResult& result) const;

  /// Returns the verdict on a job that failed or was stopped, in a few lines, each with the prefix
  /// "hororun: ". The verdict is based on the ranks' own flight records. If the records contain no
  /// reason, as for a rank that was killed or had not joined the job, the verdict is based on the
  /// reports of the runners and of mpirun. text() writes what the launcher has observed to files
  /// next to the records.
  std::string text(const JobResult& result, int exit_code) const;

 private:
  std::optional<DoctorReport> read_records() const;
  std::string of_records(JobResult result) const;

  std::string flight_setting_;
  std::uint64_t older_job_ = 0;  // the newest job that had files there before this job started
};

}  // namespace horo
