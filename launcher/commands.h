#pragma once

#include <span>
#include <string>

namespace horo {

// The commands of hororun. `words` are the words after the name of the command. Each function
// returns the exit code for main(), and throws InvalidArgument if the words are wrong.

/// `hororun run`, also without "run": reads the options, starts mpirun (or prints its command line)
/// and waits for its end. Throws Error if mpirun cannot be started.
int run_command(std::span<const std::string> words);

/// `hororun rank [--silent] PROGRAM [ARGUMENT...]`: mpirun starts each rank through this command.
/// It runs the program as its child and forwards the standard error of the program. When the
/// program ends, it reports the end on its own standard error (RankEnd), removes the shared-memory
/// segment that Open MPI leaves of a failed rank, and ends in the same way. It reports no end after
/// a signal that stops the job, and with --silent none at all. Both processes are in one process
/// group, which mpirun signals as a whole. The program is killed if this process dies.
int rank_command(std::span<const std::string> words);

/// `hororun doctor`: prints why a job makes no progress, or why it ended.
int doctor_command(std::span<const std::string> words);

/// `hororun timeline`: writes the flight recorders of a job as one trace. Throws Error if the file
/// cannot be written.
int timeline_command(std::span<const std::string> words);

/// `hororun stragglers`: prints which ranks of a job the others waited for.
int stragglers_command(std::span<const std::string> words);

}  // namespace horo
