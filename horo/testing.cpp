#include "horo/testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "horo/runtime/runtime.h"

namespace horo::testing {
namespace {

// Throws an error with the text of `error` after `prefix`. Errors of the four classes below, or of
// classes derived from them, become errors of these classes. Any other std::exception becomes an
// Error.
[[noreturn]] void rethrow_with_prefix(const std::exception_ptr& error, const std::string& prefix) {
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    throw InvalidArgument(prefix + e.what());
  } catch (const MismatchError& e) {
    throw MismatchError(prefix + e.what());
  } catch (const CommunicationError& e) {
    throw CommunicationError(prefix + e.what());
  } catch (const ShutdownError& e) {
    throw ShutdownError(prefix + e.what());
  } catch (const std::exception& e) {
    throw Error(prefix + e.what());
  }
}

std::chrono::microseconds delay_of_environment() {
  const char* text = std::getenv("HORO_TEST_DELAY");
  if (text == nullptr) return {};
  try {
    return std::chrono::duration_cast<std::chrono::microseconds>(parse_duration(text));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("HORO_TEST_DELAY: {}", error.what()));
  }
}

}  // namespace

// Each rank makes and destroys its Context on its own thread, because log labels and the state of
// callbacks are thread-local. Making a Runtime is collective, so each rank needs a thread of its
// own, even if there are fewer cores.
void run_ranks(int ranks, const std::function<void(Context&)>& function,
               const RunOptions& options) {
  HORO_CHECK(ranks > 0, "run_ranks: at least one rank is needed");
  const ParsedEnvironment environment = parse_environment(options.environment);
  set_log_level(environment.settings.log_level);
  collectives::InProcessJob::Options job_options;
  job_options.wait = make_wait_policy(environment.settings, ranks);
  job_options.ranks_per_node = environment.settings.ranks_per_node;
  job_options.max_delay = std::max(options.max_delay, delay_of_environment());
  job_options.seed = options.seed;
  job_options.drop_messages_of = options.drop_messages_of;
  collectives::InProcessJob job(ranks, job_options);

  std::mutex mutex;  // guards first_error and first_rank
  std::exception_ptr first_error;
  int first_rank = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        set_log_label(fmt::format("rank {}", rank));
        const auto note_error = [&] {
          const std::scoped_lock lock(mutex);
          if (first_error != nullptr) return;
          first_error = std::current_exception();
          first_rank = rank;
        };
        try {
          Context context(
              share(std::make_unique<Runtime>(nullptr, job.transport(rank), environment)));
          try {
            function(context);
          } catch (...) {
            // Notes the error before the destructor of the Context aborts the job. Otherwise
            // another rank could note the error of the abort first.
            note_error();
            throw;
          }
          context.shutdown();
        } catch (...) {
          note_error();
        }
      });
    }
  }
  if (first_error != nullptr)
    rethrow_with_prefix(first_error, fmt::format("rank {}: ", first_rank));
}

}  // namespace horo::testing
