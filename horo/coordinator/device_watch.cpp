#include "horo/coordinator/device_watch.h"

#include <fmt/format.h>

#include <thread>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::coordinator {
namespace {

using std::chrono::steady_clock;

// The maximum time for which a rank waits for the reason of another rank's abort. The watchdogs
// usually send this reason to all nodes in a shorter time.
constexpr std::chrono::seconds kTimeToHearWhy{2};

// An error of the collectives that a failed peer may have caused. The text does not always name the
// peer.
class PeerFailure : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

bool is_of_device(const std::exception_ptr& error) {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const DeviceError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

bool DeviceWatch::has_failed() const {
  return is_aborted() || (collectives_ != nullptr && collectives_->failure());
}

// If a DeviceError is being handled, assumes that this rank's device has caused the failure of the
// collectives. Otherwise another rank may have caused the failure, and PeerFailure makes end_job()
// wait for the reason of that rank.
std::exception_ptr DeviceWatch::error() const {
  if (is_aborted()) return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
  const std::exception_ptr own = std::current_exception();
  if (collectives_ != nullptr)
    if (const auto why = collectives_->failure())
      return is_of_device(own) ? std::make_exception_ptr(CommunicationError(*why))
                               : std::make_exception_ptr(PeerFailure(*why));
  return own;
}

bool DeviceWatch::is_overdue(std::chrono::steady_clock::time_point since) const {
  return policy_.has_timed_out(since, steady_clock::now());
}

std::exception_ptr DeviceWatch::overdue_error(std::chrono::steady_clock::time_point since,
                                              std::string_view work) const {
  const auto waited = policy_.time_since(since, steady_clock::now());
  return std::make_exception_ptr(CommunicationError(with_timeout(
      fmt::format("waited {} for {} to {}", format_duration(waited), device_.describe(), work),
      policy_.timeout)));
}

void DeviceWatch::await_abort() const {
  const auto end = steady_clock::now() + kTimeToHearWhy;
  while (!is_aborted() && !is_given_up() && steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Rethrows the error to determine its type. Only the first abort sets the text of the abort signal.
// Therefore the ranks of a node return the same text even if several of them fail at the same time.
std::exception_ptr DeviceWatch::end_job(const std::exception_ptr& error,
                                        std::string_view work) const {
  try {
    if (!is_aborted()) {
      if (is_alone_ || is_given_up()) return error;
      std::rethrow_exception(error);
    }
  } catch (const ShutdownError&) {
    return error;
  } catch (const std::exception& failure) {
    if (dynamic_cast<const PeerFailure*>(&failure) != nullptr) await_abort();
    if (is_given_up() && !is_aborted()) return error;
    end_job_(fmt::format("{} failed in {}: {}", rank_, work, failure.what()));
  }
  if (!is_aborted()) return error;  // end_job_() has no effect if the job has already ended
  return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
}

}  // namespace horo::coordinator
