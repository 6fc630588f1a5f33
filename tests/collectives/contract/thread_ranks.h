#pragma once

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/in_process/in_process_job.h"

namespace horo::collectives::contract {

/// Runs function(transport, rank) on `ranks` threads over an in-process job. A rank that throws
/// aborts the others; the first exception is rethrown with its rank.
inline void run_thread_ranks(int ranks, const InProcessJob::Options& options,
                             const std::function<void(Transport&, int)>& function) {
  const std::vector<std::exception_ptr> errors = run_on_threads(ranks, options, function);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank] == nullptr) continue;
    try {
      std::rethrow_exception(errors[rank]);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (!text.empty() && text != "another rank failed")
        throw std::runtime_error("rank " + std::to_string(rank) + ": " + text);
    }
  }
}

}  // namespace horo::collectives::contract
