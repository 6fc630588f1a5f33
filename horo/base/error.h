#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace horo {

/// Root of every exception that horo throws. what() is one line of printable text, whatever bytes
/// names and paths in it have; see horo/base/printable.h.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
};

/// A value the caller passed is wrong. Nothing was submitted; the runtime stays usable.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Ranks disagree about a tensor (shape, type, operation, root, ...). Thrown on every rank of the
/// job with the same text; the runtime stays usable.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A peer was lost, a deadline passed, or the transport failed. The job cannot go on: pending and
/// later operations end with this error.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// A node has too little shared memory for what was asked. Thrown on every rank of the job.
class SharedMemoryError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

/// A device (GPU) call failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// The runtime of this rank, or of a rank whose contribution is needed, has been shut down.
class ShutdownError : public Error {
 public:
  using Error::Error;
};

namespace detail {
[[noreturn]] void throw_check_failure(const char* expression, const std::string& message,
                                      std::source_location where);
}  // namespace detail

}  // namespace horo

/// Throws horo::InvalidArgument with `message` (any expression convertible to std::string,
/// evaluated only on failure) unless `condition` holds.
#define HORO_CHECK(condition, message)                                 \
  (static_cast<bool>(condition) ? static_cast<void>(0)                 \
                                : ::horo::detail::throw_check_failure( \
                                      #condition, (message), std::source_location::current()))
