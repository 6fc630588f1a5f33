#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/rank_processes.h"

namespace horo {

/// Whether a file of /dev/shm is a shared-memory segment of this job (or of one that its ranks
/// spawned) by Open MPI's naming, "vader_segment.HOST.UID.JOB.N".
bool is_segment_of(const MpiJob& job, std::string_view file_name);

/// Whether a path is a session directory by Open MPI's naming: "ompi.HOST.UID/pid.N", ".../jf.N".
bool is_session_directory(const std::filesystem::path& path);

/// Removes what Open MPI leaves of a job that did not end in order: its segments in
/// `shared_memory` and its session directories. No process of the job may run any more on this
/// machine. What cannot be removed stays.
void remove_leftovers(const MpiJob& job,
                      const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

/// Removes the segment of one rank that did not end in order. `environment`: the rank's,
/// "NAME=VALUE" entries. For hosts on which nothing else of hororun's runs.
void remove_segment_of_rank(const std::vector<std::string>& environment,
                            const std::filesystem::path& shared_memory = "/dev/shm") noexcept;

}  // namespace horo
