#include "tests/fakes/nccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/fakes/cuda/violation.h"
#include "tests/fakes/nccl/reduction.h"

using horo::fakes::Collective;
using horo::fakes::violation;

namespace {

constexpr auto kPause = std::chrono::microseconds(50);

bool is_message(const Collective& call) {
  const std::string_view name = call.description.call;
  return name == "ncclSend" || name == "ncclRecv";
}

}  // namespace

ncclComm::ncclComm(const std::string& group_name, int own_rank, int ranks,
                   const ncclConfig_t& config)
    : place(fmt::format("communicator {} (rank {})",
                        config.commName == nullptr ? group_name : config.commName, own_rank)),
      rank(own_rank),
      size(ranks),
      group(group_name, own_rank, ranks),
      is_blocking_(config.blocking != 0),
      name_(config.commName),
      original_name_(config.commName == nullptr ? "" : config.commName) {}

ncclComm::~ncclComm() {
  for (const auto& [handle, data] : registrations_)
    horo::fakes::Memory::of_process().add_registration({"ncclCommDestroy", place}, data, -1);
}

void ncclComm::require_name(const char* call) const {
  if (name_ != nullptr && original_name_ != name_)
    violation(call, place, "the string of ncclConfig_t::commName has changed or was freed");
}

void ncclComm::require_usable(const char* call) {
  require_name(call);
  if (pending_)
    violation(call, place,
              "the communicator is used while an earlier call is in progress; poll "
              "ncclCommGetAsyncError first");
}

ncclResult_t ncclComm::begin(std::function<bool()> is_done) {
  pending_ = std::move(is_done);
  polls_ = 0;
  if (!is_blocking_) return ncclInProgress;
  while (poll() == ncclInProgress) std::this_thread::sleep_for(kPause);
  return ncclSuccess;
}

ncclResult_t ncclComm::poll() {
  if (!pending_) return ncclSuccess;
  if (polls_++ == 0 || !pending_()) return ncclInProgress;
  pending_ = nullptr;
  return ncclSuccess;
}

void ncclComm::await_uses() const {
  while (uses.use_count() > 1) std::this_thread::sleep_for(kPause);
}

void ncclComm::submit(const std::vector<Collective>& calls) {
  for (const Collective& first : calls) {
    if (&first != &calls.front() && first.stream == calls.front().stream) continue;
    if (&first != &calls.front())
      violation(first.description.call, place, "the fake supports one stream per group");
    std::vector<horo::fakes::Range> ranges;
    for (const Collective& call : calls) {
      ranges.push_back({call.input, call.input_bytes, false});
      ranges.push_back({call.output, call.output_bytes, true});
    }
    horo::fakes::submit(first.description.call, first.stream,
                        {first.description.call, std::move(ranges),
                         [this, calls, used = uses](const horo::fakes::Actor&,
                                                    const horo::fakes::Moment&) { run(calls); }});
  }
}

void ncclComm::run(const std::vector<Collective>& calls) {
  std::vector<horo::fakes::Message> messages;
  for (const Collective& call : calls) {
    if (!is_message(call)) {
      run(call);
    } else if (call.input != nullptr) {
      messages.push_back(
          {call.description.root, const_cast<void*>(call.input), call.input_bytes, true});
    } else {
      messages.push_back({call.description.root, call.output, call.output_bytes, false});
    }
  }
  group.exchange(messages);
}

// The number of a rank whose data is used is description.root, if the call has a root.
void ncclComm::run(const Collective& call) {
  const std::string_view name = call.description.call;
  const auto type = static_cast<ncclDataType_t>(call.description.type);
  const auto op = static_cast<ncclRedOp_t>(call.description.operation);
  auto* const to = static_cast<std::byte*>(call.output);
  const std::size_t root = static_cast<std::size_t>(call.description.root);
  const bool is_reduction = name == "ncclAllReduce" || name == "ncclReduce";
  group.exchange(
      call.description, call.input,
      call.description.count * horo::fakes::size_of(type) *
          (name == "ncclReduceScatter" ? static_cast<std::size_t>(size) : 1),
      [&](std::size_t offset, std::size_t bytes, std::span<const std::byte* const> chunks) {
        if (bytes == 0 || to == nullptr) return;
        if (name == "ncclBroadcast") {
          std::memcpy(to + offset, chunks[root], bytes);
        } else if (name == "ncclAllGather") {
          for (std::size_t r = 0; r < chunks.size(); ++r)
            std::memcpy(to + r * call.input_bytes + offset, chunks[r], bytes);
        } else {
          // The part of the chunk that this rank reduces.
          const std::size_t begin =
              is_reduction ? 0 : static_cast<std::size_t>(rank) * call.output_bytes;
          const std::size_t first = std::max(offset, begin);
          const std::size_t last = std::min(offset + bytes, begin + call.output_bytes);
          if (first >= last) return;
          std::vector<const std::byte*> parts;
          for (const std::byte* chunk : chunks) parts.push_back(chunk + (first - offset));
          horo::fakes::visit(type, [&]<typename T>(T) {
            horo::fakes::reduce(reinterpret_cast<T*>(to + (first - begin)),
                                std::span<const std::byte* const>(parts),
                                (last - first) / sizeof(T), op);
          });
        }
      });
}

void* ncclComm::add_registration(const char* call, void* data) {
  horo::fakes::Memory::of_process().add_registration({call, place}, data, 1);
  auto* const handle = new int;  // only its address is used
  registrations_[handle] = data;
  return handle;
}

void ncclComm::remove_registration(const char* call, void* handle) {
  const auto found = registrations_.find(handle);
  if (found == registrations_.end()) violation(call, place, "the buffer is not registered");
  horo::fakes::require_unused(call, found->second);
  horo::fakes::Memory::of_process().add_registration({call, place}, found->second, -1);
  registrations_.erase(found);
}
