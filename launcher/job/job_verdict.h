#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor/doctor_report.h"
#include "launcher/supervisor.h"

namespace horo {

/// Returns the HORO_FLIGHT_DIR for a job, with which the files of the job can be found afterwards.
/// `setting` is the HORO_FLIGHT_DIR of the user, or empty. If it is neither empty nor "auto", it is
/// returned unchanged.
std::string flight_setting_for_job(const std::string& setting);

/// Composes the verdict of hororun on a job that failed. Must be constructed before the job starts.
class JobVerdict {
 public:
  /// `flight_setting` is the job's HORO_FLIGHT_DIR.
  explicit JobVerdict(std::string flight_setting);

  /// Returns the exit code of the job. This is exit_code_of(), except in two cases:
  /// - exit_code_of() is the code of SIGPIPE, and a rank exited with code 0 without a shutdown
  ///   before another rank failed: 1.
  /// - mpirun crashed, no failure of a rank was reported, and the flight records show which rank
  ///   failed first: 128 + n if that rank crashed with signal n, 1 if its record shows a failure of
  ///   its own, and kForcedEndExitCode otherwise, for example if a watchdog aborted the job.
  int exit_code(const JobResult& result) const;

  /// Returns the verdict on a job that failed or was stopped, in a few lines. The verdict is based
  /// on the flight records of the ranks and on the reports of the runners and of mpirun. If there
  /// are flight records, text() also writes the signal that stopped the job, or the end of the
  /// first failed rank, to a file next to the records.
  std::string text(const JobResult& result, int exit_code) const;

 private:
  std::optional<DoctorReport> read_records() const;
  std::string of_records(JobResult result) const;

  std::string flight_setting_;
  std::uint64_t older_job_ = 0;  // the newest job in the directory before this job started
};

}  // namespace horo
