#pragma once

#include <gtest/gtest.h>

#include <string>

#include "horo/base/error.h"

namespace horo::ops {

/// The text of the InvalidArgument that `function` throws; fails the test if it throws none.
template <typename Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "no InvalidArgument was thrown";
  return {};
}

}  // namespace horo::ops
