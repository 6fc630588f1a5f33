#include "horo/runtime/equality_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/base/text/quantity.h"
#include "horo/coordinator/allreduce_checks.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

using coordinator::Request;

constexpr std::size_t kMostRanksNamed = 8;

/// The tensors of one rank: `hashes[t]` is the hash of `tensors[t]`.
struct Replica {
  std::vector<Request> tensors;
  std::vector<std::uint64_t> hashes;
  std::uint64_t every = 1;
};

void check_arguments(std::span<const NamedTensor> tensors, const CheckEqualOptions& options) {
  HORO_CHECK(!tensors.empty(), "check_equal: pass at least one tensor");
  HORO_CHECK(options.every > 0, "check_equal: every is 0; it must be at least 1");
  for (const NamedTensor& tensor : tensors) {
    HORO_CHECK(!tensor.name.empty(), "check_equal: every tensor needs a name");
    HORO_CHECK(tensor.tensor.data() != nullptr || tensor.tensor.count() == 0,
               fmt::format("check_equal: tensor '{}' has no memory", tensor.name));
    if (const device::Device* const device = tensor.tensor.device())
      check_stream("check_equal", *device, options.stream);
  }
}

// Hashes a tensor in device memory, after the work that is enqueued on `native`. Copies it to
// `copy`, pinned memory that grows to the largest tensor.
std::uint64_t hash_on_device(const TensorView& view, void* native, device::Memory& copy) {
  device::Device& device = *view.device();
  if (copy.size() < view.bytes()) copy = device.allocate_pinned(view.bytes());
  const auto stream = device.borrow_stream(native);
  stream->copy(copy.data(), view.data(), view.bytes());
  stream->synchronize();
  return hash_contents(copy.data(), view.bytes());
}

// Ranks compare a hash of 8 bytes for each tensor instead of the contents of the tensor.
Replica make_replica(std::span<const NamedTensor> tensors, const CheckEqualOptions& options) {
  Replica own{.tensors = {}, .hashes = {}, .every = options.every};
  device::Memory copy;
  for (const NamedTensor& tensor : tensors) {
    const TensorView& view = tensor.tensor;
    own.tensors.push_back({.name = tensor.name, .type = view.type(), .shape = view.shape()});
    own.hashes.push_back(view.device() == nullptr || view.count() == 0
                             ? hash_contents(view.data(), view.bytes())
                             : hash_on_device(view, options.stream, copy));
  }
  return own;
}

// Collective. Called only if the signatures differ.
std::vector<Replica> gather(const Replica& own, collectives::Collectives& collectives,
                            const Topology& topology) {
  const auto gather_bytes = [&](std::span<const std::byte> bytes) {
    return collectives::gather_all(bytes, collectives, topology);
  };
  std::vector<Replica> replicas;
  for (const auto& bytes : gather_bytes(coordinator::encode(own.tensors)))
    replicas.push_back({.tensors = coordinator::decode_request_list(bytes), .hashes = {}});
  const auto hashes = gather_bytes(std::as_bytes(std::span(own.hashes)));
  const auto every = gather_bytes(std::as_bytes(std::span(&own.every, 1)));
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].hashes.resize(hashes[r].size() / sizeof(std::uint64_t));
    std::memcpy(replicas[r].hashes.data(), hashes[r].data(), hashes[r].size());
    std::memcpy(&replicas[r].every, every[r].data(), sizeof(std::uint64_t));
  }
  return replicas;
}

std::string describe(const Replica& replica, std::size_t tensor) {
  if (tensor >= replica.tensors.size()) return "missing";
  const Request& request = replica.tensors[tensor];
  return fmt::format("'{}', {} {}", request.name, name_of(request.type), request.shape.to_string());
}

// Describes the first difference in options.every or in a tensor's name, type or shape between rank
// 0 and the lowest rank that differs from it. Empty if there is none.
std::string describe_other_arguments(const std::vector<Replica>& replicas,
                                     const Topology& topology) {
  const Replica& first = replicas[0];
  for (std::size_t r = 1; r < replicas.size(); ++r) {
    const Replica& other = replicas[r];
    const std::string rank = topology.describe(static_cast<int>(r));
    if (first.every != other.every)
      return fmt::format("every = {} on {} and {} on {}", first.every, topology.describe(0),
                         other.every, rank);
    for (std::size_t t = 0; t < std::max(first.tensors.size(), other.tensors.size()); ++t)
      if (describe(first, t) != describe(other, t))
        return fmt::format("tensor {} is {} on {} and {} on {}", t, describe(first, t),
                           topology.describe(0), describe(other, t), rank);
  }
  return {};
}

// Returns the most frequent value. If several values are equally frequent, returns the first of
// them.
std::uint64_t most_frequent(const std::vector<std::uint64_t>& hashes) {
  return *std::ranges::max_element(
      hashes, {}, [&](std::uint64_t hash) { return std::ranges::count(hashes, hash); });
}

// Requires that names, types and shapes are equal on all ranks, and that the hashes of at least one
// tensor differ.
std::string describe_first_difference(const std::vector<Replica>& replicas,
                                      const Topology& topology) {
  const std::size_t count = replicas[0].tensors.size();
  const auto differs = [&](std::size_t t) {
    return std::ranges::any_of(
        replicas, [&](const Replica& other) { return other.hashes[t] != replicas[0].hashes[t]; });
  };
  std::size_t first = 0, different = 0;
  for (std::size_t t = count; t-- > 0;)
    if (differs(t)) {
      first = t;
      ++different;
    }
  std::vector<std::uint64_t> hashes;
  for (const Replica& replica : replicas) hashes.push_back(replica.hashes[first]);
  const std::uint64_t expected = most_frequent(hashes);
  std::vector<std::string> others;
  for (std::size_t r = 0; r < hashes.size(); ++r)
    if (hashes[r] != expected && others.size() <= kMostRanksNamed)
      others.push_back(others.size() == kMostRanksNamed
                           ? "and more"
                           : fmt::format("{} has hash {:016x}",
                                         topology.describe(static_cast<int>(r)), hashes[r]));
  const auto reference = std::ranges::find(hashes, expected) - hashes.begin();
  std::string holders = topology.describe(static_cast<int>(reference));
  if (const auto rest = std::ranges::count(hashes, expected) - 1; rest > 0)
    holders += " and " + format_count(static_cast<std::size_t>(rest), "other rank");
  return fmt::format(
      "tensor {} differs between ranks: {}; the hash of {} is {:016x} ({} of {} "
      "tensors differ)",
      describe(replicas[0], first), fmt::join(others, ", "), holders, expected, different, count);
}

}  // namespace

// The comparison runs as a task, so it has the same position in the sequence of collectives on all
// ranks. The hashes are computed on the caller's thread, before the task, so that they do not delay
// other operations. All ranks throw the same text, because they gather the same replicas.
//
// The counter of calls advances on every rank, even if the call skips the check. So all ranks skip
// the same calls if `every` is equal on all ranks.
void check_equal(Runtime& runtime, std::span<const NamedTensor> tensors,
                 const CheckEqualOptions& options) {
  check_arguments(tensors, options);
  // Throws before next_number(), so that a rejected call does not advance the counter.
  coordinator::forbid_blocking_in_callbacks();
  const std::string name =
      options.name.empty() ? "check_equal" : fmt::format("check_equal.{}", options.name);
  if (runtime.next_number(name) % options.every != 0) return;

  const Replica own = make_replica(tensors, options);
  const std::vector<std::byte> encoded = coordinator::encode(own.tensors);
  const std::uint64_t signature = Hash()
                                      .add_bytes(encoded.data(), encoded.size())
                                      .add_bytes(own.hashes.data(), own.hashes.size() * 8)
                                      .add(own.every)
                                      .value();
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = name;
  entry.task = [&](collectives::Collectives& collectives) {
    if (collectives::all_equal(signature, collectives)) return;
    const std::vector<Replica> replicas = gather(own, collectives, runtime.topology());
    std::string text = describe_other_arguments(replicas, runtime.topology());
    if (text.empty()) text = describe_first_difference(replicas, runtime.topology());
    throw MismatchError(fmt::format("{}: {}", name, text));
  };
  runtime.run_task(std::move(entry));
}

}  // namespace horo
