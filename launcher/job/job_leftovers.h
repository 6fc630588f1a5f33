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

/// Removes the files that Open MPI leaves after a failed job: the segments of the job in
/// `shared_memory` and its session directories. The caller must make sure that no process of the
/// job runs on this machine any more. Files that cannot be removed are ignored.
void remove_leftovers(const MpiJob& job,
                      const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

/// Removes the segment of one failed rank. `environment` has the "NAME=VALUE" entries of that rank.
/// Needed on hosts on which hororun itself does not run.
void remove_segment_of_rank(const std::vector<std::string>& environment,
                            const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

}  // namespace horo
