#pragma once

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/in_process/in_process_job.h"

namespace horo::collectives::contract {

/// Runs function(transport, rank) on `ranks` threads over an in-process job. A rank that throws
/// aborts the others; the first exception is rethrown with its rank.
inline void run_thread_ranks(int ranks, const InProcessJob::Options& options,
                             const std::function<void(Transport&, int)>& function) {
  InProcessJob job(ranks, options);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto transport = job.transport(rank);
        try {
          function(*transport, rank);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
          transport->abort("another rank failed");
        }
      });
  }
  for (int rank = 0; rank < ranks; ++rank)
    if (const auto& error = errors[static_cast<std::size_t>(rank)];
        !error.empty() && error != "another rank failed")
      throw std::runtime_error("rank " + std::to_string(rank) + ": " + error);
}

}  // namespace horo::collectives::contract
