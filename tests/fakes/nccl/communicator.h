#pragma once

#include <nccl.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/nccl/shared_group.h"

namespace horo::fakes {

/// A call of a collective, of ncclSend or of ncclRecv.
struct Collective {
  Description description;
  const void* input;  // of ncclSend too
  void* output;
  std::size_t input_bytes, output_bytes;
  cudaStream_t stream;
};

}  // namespace horo::fakes

/// A communicator. Used by one thread at a time, as NCCL requires, except for the streams' threads.
struct ncclComm {
  ncclComm(const std::string& group, int rank, int size, const ncclConfig_t& config);
  ~ncclComm();

  const std::string place;
  const int rank, size;
  horo::fakes::SharedGroup group;
  const std::shared_ptr<int> uses = std::make_shared<int>();  // by streams and graphs

  bool is_blocking() const { return is_blocking_; }
  /// It is a violation if an earlier call is in progress, or if the communicator's name is gone.
  void require_usable(const char* call);
  void require_name(const char* call) const;
  /// Begins a call that ends when `is_done` returns true, at the earliest at the second poll.
  /// Blocks if the communicator does.
  ncclResult_t begin(std::function<bool()> is_done);
  ncclResult_t poll();
  /// Submits collectives, in order, and the sends and receives among them together.
  void submit(const std::vector<horo::fakes::Collective>& calls);
  /// Waits until no stream and no graph uses the communicator.
  void await_uses() const;

  void* add_registration(const char* call, void* data);
  void remove_registration(const char* call, void* handle);

 private:
  void run(const std::vector<horo::fakes::Collective>& calls);
  void run(const horo::fakes::Collective& call);

  const bool is_blocking_;
  const char* const name_;           // the program's string
  const std::string original_name_;  // its content at the creation
  std::function<bool()> pending_;    // of the call in progress; empty if there is none
  int polls_ = 0;
  std::map<void*, void*> registrations_;  // data by handle
};
