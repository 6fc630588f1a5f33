#include "tests/fakes/cuda/library_call.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/fakes/cuda/stream.h"
#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

bool overlap(const Range& a, const Range& b) {
  const auto* const first = static_cast<const std::byte*>(a.data);
  const auto* const second = static_cast<const std::byte*>(b.data);
  return first < second + b.bytes && second < first + a.bytes;
}

}  // namespace

LibraryCall::LibraryCall(const char* name, cudaStream_t stream)
    : name_(name), stream_(stream), place_(checked(name, stream).name) {
  enter(name);
}

void LibraryCall::require(bool holds, const std::string& rule) const {
  if (!holds) violation(name_, place_, rule);
}

void LibraryCall::read(const char* what, const void* data, std::size_t bytes,
                       std::size_t alignment) {
  add(what, {data, bytes, false}, alignment);
}

void LibraryCall::write(const char* what, const void* data, std::size_t bytes,
                        std::size_t alignment) {
  add(what, {data, bytes, true}, alignment);
}

void LibraryCall::add(const char* what, const Range& range, std::size_t alignment) {
  require(range.data != nullptr, fmt::format("{} is null", what));
  require(reinterpret_cast<std::uintptr_t>(range.data) % alignment == 0,
          fmt::format("{} is not aligned to {} bytes", what, alignment));
  Memory::of_process().require_live({name_, place_}, range.data, range.bytes);
  require(Memory::of_process().kind_of(range.data) != nullptr,
          fmt::format("{} is not in memory of CUDA", what));
  for (const Range& other : ranges_)
    require(!(range.is_written || other.is_written) || !overlap(range, other),
            fmt::format("{} overlaps another operand", what));
  ranges_.push_back(range);
}

void LibraryCall::use_workspace(void* data, std::size_t needed, std::size_t given,
                                std::size_t alignment) {
  require(given >= needed,
          fmt::format("the workspace has {} bytes, and the algorithm needs {}", given, needed));
  if (needed == 0) return;
  add("the workspace", {data, needed, true}, alignment);
  workspace_ = data;
  workspace_bytes_ = needed;
}

void LibraryCall::submit(std::function<void()> compute) {
  fakes::submit(name_, stream_,
                {name_, std::move(ranges_),
                 [compute = std::move(compute), workspace = workspace_, bytes = workspace_bytes_](
                     const Actor&, const Moment&) {
                   if (bytes > 0) std::memset(workspace, 0xff, bytes);
                   compute();
                 }});
}

}  // namespace horo::fakes
