#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace horo {

/// The base of every exception that horo throws. what() is one line of printable text, even if
/// names and paths in the text are not printable; see horo/base/printable.h.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
};

/// An argument is invalid. Nothing was submitted, and the runtime remains usable.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Ranks have different arguments for the same operation: shape, type, reduction, root, ... Thrown
/// on every rank with the same text. The runtime remains usable.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A rank was lost, a wait timed out, or the transport failed. The job cannot continue: pending and
/// later operations fail with this error.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// A node has too little shared memory for a request. Thrown on every rank. The runtime remains
/// usable, although the base class is CommunicationError.
class SharedMemoryError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

/// A device (GPU) call failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// This rank, or a rank that the operation needs, has shut down.
class ShutdownError : public Error {
 public:
  using Error::Error;
};

namespace detail {
[[noreturn]] void throw_check_failure(const char* expression, const std::string& message,
                                      std::source_location where);
}  // namespace detail

}  // namespace horo

/// Throws horo::InvalidArgument with `message` if `condition` is false. `message` is an expression
/// convertible to std::string. It is evaluated only if `condition` is false.
#define HORO_CHECK(condition, message)                                 \
  (static_cast<bool>(condition) ? static_cast<void>(0)                 \
                                : ::horo::detail::throw_check_failure( \
                                      #condition, (message), std::source_location::current()))
