#pragma once

#include <boost/program_options.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "horo/context.h"

namespace horo::bench {

/// A benchmark's main(): reads the command line into what `options` refers to, calls `check` (which
/// throws if a value makes no sense) and `run`. Adds --help. Returns the exit code: 2 for a mistake
/// on the command line, 1 for a failure; both with one line on stderr.
int benchmark_main(int argc, char** argv, const std::string& name,
                   boost::program_options::options_description options,
                   const std::function<void()>& check, const std::function<void()>& run);

/// The sizes of float32 buffers that --sizes names, such as "4,1024". Throws InvalidArgument for
/// anything but multiples of 4 bytes.
std::vector<std::size_t> parse_sizes(const std::string& text);

/// Joins the job as horo::init() does. Throws InvalidArgument if mpirun did not start the program,
/// since there would be no MPI to compare with.
Context init_beside_mpi();

}  // namespace horo::bench
