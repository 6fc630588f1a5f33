#include "horo/coordinator/device_watch.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/base/quantity.h"

namespace horo::coordinator {

bool DeviceWatch::has_failed() const {
  return is_aborted() || (collectives_ != nullptr && collectives_->failure());
}

std::exception_ptr DeviceWatch::error() const {
  if (is_aborted()) return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
  if (collectives_ != nullptr)
    if (const auto why = collectives_->failure())
      return std::make_exception_ptr(CommunicationError(*why));
  return std::current_exception();
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
    end_job_(fmt::format("{} failed in {}: {}", rank_, work, failure.what()));
  }
  if (!is_aborted()) return error;  // it had ended before
  return std::make_exception_ptr(CommunicationError(policy_.abort->text()));
}

}  // namespace horo::coordinator
