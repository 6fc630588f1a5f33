#pragma once

#include <span>
#include <string>

namespace horo {

/// `hororun rank [--silent] PROGRAM [ARGUMENT...]`, which hororun has mpirun start for each rank:
/// runs the program as its child, passes its standard error on, reports there how it ended
/// (RankEnd), removes the shared-memory segment that Open MPI leaves of a rank that failed, and
/// ends in the same way. It reports no end that follows a signal to stop the job, and with --silent
/// none at all. Both processes are in one process group, which mpirun signals as a whole. The
/// program is killed if this process dies.
int rank_command(std::span<const std::string> words);

}  // namespace horo
