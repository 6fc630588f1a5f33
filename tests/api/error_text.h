#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace horo {

/// The text of the Error that `function` must throw.
template <typename Error, typename Function>
std::string error_text(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace horo
