#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor/doctor_report.h"
#include "launcher/supervisor.h"

namespace horo {

/// The HORO_FLIGHT_DIR to give to a job, so that its files can be found afterwards; `setting` is
/// the user's, empty if there is none.
std::string flight_setting_for_job(const std::string& setting);

/// Composes the verdict of hororun on a job that failed. Constructed before the job starts.
class JobVerdict {
 public:
  /// `flight_setting`: the job's HORO_FLIGHT_DIR.
  explicit JobVerdict(std::string flight_setting);

  /// The exit code of the job: exit_code_of(). If mpirun crashed and did not name a rank, the exit
  /// code of the rank that failed first according to its record. That is 128 + n after a crash by
  /// signal n, kForcedEndExitCode if the watchdog ended the rank, otherwise 1.
  int exit_code(const JobResult& result) const;

  /// One verdict on a job that failed or was stopped, in a few lines, each with the prefix
  /// "hororun: ". The ranks' own records come first. mpirun's report is used if they contain no
  /// reason, as for a rank that was killed or had not joined the job. Writes what the launcher has
  /// observed to files next to the records.
  std::string text(const JobResult& result, int exit_code) const;

 private:
  std::optional<DoctorReport> read_records() const;
  std::string of_records(JobResult result) const;

  std::string flight_setting_;
  std::uint64_t older_job_ = 0;  // the newest job with files there before the start
};

}  // namespace horo
