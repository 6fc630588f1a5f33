#pragma once

#include <span>
#include <string>

namespace horo {

// The commands of hororun. `words` are the words after the name of the command. Each function
// throws InvalidArgument if the words are invalid. Except for rank_command(), each function returns
// the exit code for main().

/// `hororun run`. The word "run" may be omitted. Reads the options, starts mpirun and waits until
/// mpirun has ended. With --dry-run, prints the command line of mpirun instead. Throws Error if
/// mpirun cannot be started.
int run_command(std::span<const std::string> words);

/// `hororun rank [--silent] PROGRAM [ARGUMENT...]`. mpirun starts each rank through this command;
/// the process is called the runner of the rank. The runner runs the program as its child and
/// forwards the standard error of the program. After the program has ended, the runner does the
/// following:
///   - If the program failed, it removes the shared-memory segment that Open MPI leaves.
///   - It reports the end of the program on its own standard error (RankEnd), except with --silent
///     or if the runner has received a signal that stops the job.
///   - It ends with the exit code or the signal of the program, so this function returns only by an
///     exception.
///
/// The runner and the program are in one process group. mpirun sends signals to the whole group. If
/// the runner dies, the program is killed.
int rank_command(std::span<const std::string> words);

/// `hororun doctor`: prints why a job makes no progress, or why it ended, from its flight
/// recorders.
int doctor_command(std::span<const std::string> words);

/// `hororun timeline`: writes the flight recorders of a job as one trace. Throws Error if the file
/// cannot be written.
int timeline_command(std::span<const std::string> words);

/// `hororun stragglers`: prints the ranks of a job for which other ranks waited.
int stragglers_command(std::span<const std::string> words);

/// `hororun pack`: packs a folder of files into few large files, or checks packed files. Returns 1
/// if --check finds a damaged record. Throws Error if a file cannot be read or written.
int pack_command(std::span<const std::string> words);

}  // namespace horo
