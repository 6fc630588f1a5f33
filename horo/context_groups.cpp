// The operations of Context on several tensors, on objects, and join().
#include <cstring>
#include <numeric>

#include "horo/context.h"
#include "horo/operation_entries.h"
#include "horo/runtime.h"

namespace horo {
namespace {

// Of the operations that an operation on objects is made of.
std::string part_name(const std::string& name, const char* part) { return name + "." + part; }

}  // namespace

void Context::allreduce_group(std::span<const NamedTensor> tensors,
                              const AllreduceOptions& options) {
  runtime_->perform(allreduce_group_entry(tensors, options));
}
Handle Context::allreduce_group_async(std::span<const NamedTensor> tensors,
                                      const AllreduceOptions& options) {
  return Handle(runtime_->submit(allreduce_group_entry(tensors, options)));
}
void Context::broadcast_group(std::span<const NamedTensor> tensors,
                              const BroadcastOptions& options) {
  runtime_->perform(broadcast_group_entry(tensors, options, runtime_->topology()));
}
Handle Context::broadcast_group_async(std::span<const NamedTensor> tensors,
                                      const BroadcastOptions& options) {
  return Handle(runtime_->submit(broadcast_group_entry(tensors, options, runtime_->topology())));
}

void Context::broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options) {
  const std::string name =
      options.name.empty() ? runtime_->automatic_name("broadcast_object") : options.name;
  auto bytes = static_cast<std::int64_t>(object.size());
  broadcast(TensorView(&bytes, {1}), {.name = part_name(name, "bytes"), .root = options.root});
  object.resize(static_cast<std::size_t>(bytes));
  broadcast(TensorView(object.data(), DataType::kUInt8, {object.size()}),
            {.name = name, .root = options.root});
}

std::vector<std::vector<std::byte>> Context::allgather_object(std::span<const std::byte> object,
                                                              const AllgatherOptions& options) {
  const std::string name =
      options.name.empty() ? runtime_->automatic_name("allgather_object") : options.name;
  auto own = static_cast<std::int64_t>(object.size());
  std::vector<std::int64_t> bytes_of(static_cast<std::size_t>(size()));
  allgather(TensorView(&own, {1}), TensorView(bytes_of), {.name = part_name(name, "bytes")});
  std::vector<std::byte> all(
      static_cast<std::size_t>(std::accumulate(bytes_of.begin(), bytes_of.end(), std::int64_t{0})));
  allgather(ConstTensorView(object.data(), DataType::kUInt8, {object.size()}),
            TensorView(all.data(), DataType::kUInt8, {all.size()}), {.name = name});
  std::vector<std::vector<std::byte>> objects;
  for (auto at = all.begin(); const std::int64_t bytes : bytes_of) {
    objects.emplace_back(at, at + bytes);
    at += bytes;
  }
  return objects;
}

int Context::join() {
  Entry entry = join_entry();
  const std::shared_ptr<int> last_to_join = entry.last_to_join;
  runtime_->perform(std::move(entry));
  return *last_to_join;
}

}  // namespace horo
