#pragma once

#include <string>

#include "horo/base/error.h"
#include "horo/horo_c.h"

namespace horo::c {

/// Stores the text of the exception in flight for horo_last_error() and returns its status. Call it
/// in a handler.
horo_status keep_current_exception() noexcept;

/// Calls `function` and returns HORO_OK, or the status of its exception.
template <typename Function>
horo_status guarded(const Function& function) noexcept {
  try {
    function();
    return HORO_OK;
  } catch (...) {
    return keep_current_exception();
  }
}

/// Returns what `pointer` points to. Throws InvalidArgument, with the names of the function and of
/// the argument, if it is null.
template <typename T>
T& required(T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr)
    throw InvalidArgument(std::string(function) + ": the argument '" + argument + "' is null");
  return *pointer;
}

}  // namespace horo::c
