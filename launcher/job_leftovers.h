#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rank_processes.h"

namespace horo {

/// Whether a file in /dev/shm has the name of a shared-memory segment of this job, or of a job that
/// its ranks spawned: "vader_segment.HOST.UID.JOB.N".
bool is_segment_of(const MpiJob& job, std::string_view file_name);

/// Whether a path has the name of a session directory of Open MPI: "ompi.HOST.UID/pid.N" or
/// "ompi.HOST.UID/jf.N".
bool is_session_directory(const std::filesystem::path& path);

/// Removes the files that Open MPI leaves after a failed job: its segments in `shared_memory` and
/// its session directories. Requires that no process of the job runs on this machine any more.
/// Ignores files that it cannot remove.
void remove_leftovers(const MpiJob& job,
                      const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

/// Removes the segment of one failed rank. `environment` has the "NAME=VALUE" entries of that rank.
/// For hosts on which no other process of hororun runs.
void remove_segment_of_rank(const std::vector<std::string>& environment,
                            const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

}  // namespace horo
