#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor_report.h"
#include "launcher/supervisor.h"

namespace horo {

/// The HORO_FLIGHT_DIR to give to a job, so that its files can be found afterwards; `setting` is
/// the user's, empty if there is none.
std::string flight_setting_for_job(const std::string& setting);

/// What hororun says of a job that failed. It is made before the job starts.
class JobVerdict {
 public:
  /// `flight_setting`: the job's HORO_FLIGHT_DIR.
  explicit JobVerdict(std::string flight_setting);

  /// The job's exit code: exit_code_of(), or, where mpirun crashed and did not name a rank, that of
  /// the rank that failed first by the records: of a crash as shells give it, of a rank that its
  /// watchdog ended kForcedEndExitCode, otherwise 1.
  int exit_code(const JobResult& result) const;

  /// One verdict on a job that failed or was stopped, in a few lines, each with the prefix
  /// "hororun: ". The ranks' own records come first. mpirun's report counts where they have no
  /// reason, as for a rank that was killed or had not joined the job. Leaves what the launcher
  /// knows beside the records.
  std::string text(const JobResult& result, int exit_code) const;

 private:
  std::optional<DoctorReport> read_records() const;
  std::string of_records(JobResult result) const;

  std::string flight_setting_;
  std::uint64_t older_job_ = 0;  // the newest job whose files lay there before
};

}  // namespace horo
