#pragma once

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace horo::fake_nccl {

// A library with the functions of NCCL, for tests on machines without a GPU. It is named
// libnccl.so.2, so nccl() finds it in a program that links it. It records calls and moves no data.
// The ranks of a communicator are not connected. Thread-safe.

/// One call of a function that enqueues, registers or ends something.
struct Call {
  std::string function;  ///< without the prefix, such as "AllReduce"
  int rank;
  std::size_t count = 0;  ///< elements or bytes
  bool is_grouped = false;
};

struct Options {
  bool has_windows = true;        ///< whether ncclCommWindowRegister() makes windows
  bool can_register = true;       ///< whether ncclCommRegister() succeeds
  int rank_without_windows = -1;  ///< a rank on which it makes none
  /// A function whose next calls fail with ncclInternalError, such as "AllReduce".
  std::string failing;
  /// While true, ncclCommAbort() does not return, as long as graphs contain collectives.
  bool has_graphs = false;
  bool can_finalize = true;  ///< if false, a finalization stays in progress
};

/// Forgets all calls and sets the options. No communicator may exist.
void reset(const Options& options = {});
/// Changes the options.
void set(const Options& options);
std::vector<Call> calls();
/// The number of calls of `function`.
std::size_t count_of(const std::string& function);
/// The names that communicators had when they ended, read from the pointer that NCCL keeps.
std::vector<std::string> names_at_end();
/// The configuration of the latest communicator.
ncclConfig_t latest_config();
/// The number of communicators that have not ended.
int communicators();
/// The depth of the group of the calling thread.
int group_depth();
/// The number of blocks of ncclMemAlloc() that are not freed, and of registrations and windows
/// of communicators that have not ended.
int blocks();
int registrations();
int windows();
/// Waits until no communicator exists. Returns false after `limit`.
bool await_end(std::chrono::milliseconds limit);

}  // namespace horo::fake_nccl
