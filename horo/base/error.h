#pragma once

#include <stdexcept>
#include <string>

#include "horo/base/source_location.h"

namespace horo {

/// The base of all exception classes of horo. what() is one line of printable text, even if names
/// and paths in the text are not printable; see horo/base/text/printable.h.
class Error : public std::runtime_error {
 public:
  /// An error whose what() is `text`, made printable.
  explicit Error(const std::string& text);
};

/// An argument or a setting is invalid. The Context, if there is one, remains usable. Nothing was
/// submitted, unless the documentation of the function states otherwise.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Ranks disagree, for example on the shape, type, reduction or root of an operation. Thrown on
/// every rank that takes part in the operation. The Context, if there is one, remains usable.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A rank was lost, a wait timed out, or the transport failed. Except for SharedMemoryError, the
/// job cannot continue: pending and later operations fail with this error.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// A node has too little shared memory for a request. Thrown on every rank. The Context, if there
/// is one, remains usable.
class SharedMemoryError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

/// A device (GPU) call failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// This rank, or a rank that the operation needs, has shut down. Also thrown in a child process of
/// fork(), which cannot use horo.
class ShutdownError : public Error {
 public:
  using Error::Error;
};

namespace detail {
[[noreturn]] void throw_check_failure(const char* expression, const std::string& message,
                                      SourceLocation where);
}  // namespace detail

}  // namespace horo

/// Throws horo::InvalidArgument with `message` if `condition` is false. `message` is an expression
/// convertible to std::string. It is evaluated only if `condition` is false. If it is empty, the
/// text has the condition and its place in the source.
#define HORO_CHECK(condition, message)                                 \
  (static_cast<bool>(condition) ? static_cast<void>(0)                 \
                                : ::horo::detail::throw_check_failure( \
                                      #condition, (message), ::horo::SourceLocation::current()))
