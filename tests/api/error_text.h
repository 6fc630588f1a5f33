#pragma once

#include <gmock/gmock.h>
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

/// Matches a text that names `rank` of node 0 as failed. A rank reads either the message of the
/// rank that failed or the report of the watchdog, whichever arrives first. The report also gives
/// the process ID.
inline auto names_failed_rank(int rank) {
  return ::testing::ContainsRegex("rank " + std::to_string(rank) +
                                  " \\(host thread-node-0(, pid [0-9]+)?\\) failed");
}

}  // namespace horo
