#include "horo/coordinator/device_watch.h"

#include <fmt/format.h>

#include <thread>

#include "horo/base/error.h"
#include "horo/base/quantity.h"

namespace horo::coordinator {
namespace {

using std::chrono::steady_clock;

// In which the job hears on all nodes why a rank has failed: their watchdogs meet more often.
constexpr std::chrono::seconds kTimeToHearWhy{2};

// Of the collectives, which may say no more than that a peer has gone.
class Hearsay : public CommunicationError {
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

std::exception_ptr DeviceWatch::error() const {
  if (is_aborted()) return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
  const std::exception_ptr own = std::current_exception();
  if (collectives_ != nullptr)
    if (const auto why = collectives_->failure())
      return is_of_device(own) ? std::make_exception_ptr(CommunicationError(*why))
                               : std::make_exception_ptr(Hearsay(*why));
  return own;
}

bool DeviceWatch::is_overdue(std::chrono::steady_clock::time_point since) const {
  return waited(since) > policy_.timeout + policy_.grace;
}

std::exception_ptr DeviceWatch::overdue_error(std::chrono::steady_clock::time_point since,
                                              std::string_view work) const {
  return std::make_exception_ptr(CommunicationError(
      fmt::format("waited {} for {} to {} (HORO_TIMEOUT is {})", format_duration(waited(since)),
                  device_.describe(), work, format_duration(policy_.timeout))));
}

void DeviceWatch::await_abort() const {
  const auto end = steady_clock::now() + kTimeToHearWhy;
  while (!is_aborted() && !is_given_up() && steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

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
    if (dynamic_cast<const Hearsay*>(&failure) != nullptr) await_abort();
    if (is_given_up() && !is_aborted()) return error;
    end_job_(fmt::format("{} failed in {}: {}", rank_, work, failure.what()));
  }
  if (!is_aborted()) return error;  // it had ended before
  return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
}

}  // namespace horo::coordinator
