#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/fakes/cuda/memory.h"

namespace horo::fakes {

/// A call of a library that submits work to a stream. The ranges that the work reads and writes are
/// checked at the call, and again, with their order, when the work runs.
class LibraryCall {
 public:
  /// It is a violation if the stream does not exist, or if a host function makes the call.
  LibraryCall(const char* name, cudaStream_t stream);

  /// It is a violation of `rule` unless `holds`.
  void require(bool holds, const std::string& rule) const;
  /// Adds an operand. It is a violation if it is not in one live block of memory of CUDA, or not
  /// aligned. `what` names it.
  void read(const char* what, const void* data, std::size_t bytes, std::size_t alignment);
  /// The same. It is also a violation if the work writes another operand that overlaps it.
  void write(const char* what, const void* data, std::size_t bytes, std::size_t alignment);
  /// A workspace, of which the work overwrites the first `needed` of `given` bytes.
  void use_workspace(void* data, std::size_t needed, std::size_t given, std::size_t alignment);

  void submit(std::function<void()> compute);

 private:
  void add(const char* what, const Range& range, std::size_t alignment);

  const char* name_;
  cudaStream_t stream_;
  std::string place_;
  std::vector<Range> ranges_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace horo::fakes
