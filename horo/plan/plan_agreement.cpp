#include "horo/plan/plan_agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/agreement.h"
#include "collectives/collectives.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/coordinator/negotiation/wire.h"
#include "horo/plan/compression_state.h"

namespace horo::plan {
namespace {

constexpr const char* kSettings = "settings";

std::size_t count_gradients(const std::vector<coordinator::Request>& description) {
  return static_cast<std::size_t>(
      std::ranges::count(description, coordinator::Kind::kAllreduce, &coordinator::Request::kind));
}

std::string describe_settings(const coordinator::Request& settings) {
  if (settings.name != kSettings) return settings.name;
  return fmt::format("{} with bucket_bytes {} and wire type {}", horo::name_of(settings.op),
                     settings.shape[0], horo::name_of(settings.type));
}

}  // namespace

std::vector<coordinator::Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                                std::size_t bucket_bytes,
                                                std::optional<DataType> wire,
                                                const Compression& compression,
                                                std::span<const std::string> options) {
  std::vector<coordinator::Request> description;
  for (const NamedTensor& gradient : gradients)
    description.push_back({gradient.name, coordinator::Kind::kAllreduce, gradient.tensor.type(), op,
                           0, gradient.tensor.shape()});
  // float32 as the wire type means that no wire type is set.
  description.push_back({kSettings, coordinator::Kind::kTask, wire.value_or(DataType::kFloat32), op,
                         0, Shape{bucket_bytes}});
  for (const std::string& option : options)
    description.push_back({option, coordinator::Kind::kTask});
  for (const std::string& option : describe_compression(compression))
    description.push_back({option, coordinator::Kind::kTask});
  return description;
}

std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<coordinator::Request>> descriptions,
                               std::span<const std::string> rank_names) {
  const std::vector<coordinator::Request>& first = descriptions[0];
  for (std::size_t r = 1; r < descriptions.size(); ++r) {
    const std::vector<coordinator::Request>& other = descriptions[r];
    const std::size_t first_count = count_gradients(first);
    const std::size_t other_count = count_gradients(other);
    const std::size_t common = std::min(first_count, other_count);
    for (std::size_t i = 0; i < common; ++i) {
      if (first[i].name != other[i].name)
        return fmt::format("gradients '{}': gradient {} is '{}' on {} and '{}' on {}", plan_name, i,
                           first[i].name, rank_names[0], other[i].name, rank_names[r]);
      const std::string text =
          coordinator::describe_mismatch(first[i], rank_names[0], other[i], rank_names[r]);
      if (!text.empty()) return fmt::format("gradients '{}': {}", plan_name, text);
    }
    if (first_count != other_count) {
      const auto& longer = first_count > other_count ? first : other;
      return fmt::format(
          "gradients '{}': {} registered {} and {} registered {}; only one of them registered '{}'",
          plan_name, rank_names[0], first_count, rank_names[r], other_count, longer[common].name);
    }
    // If the lengths differ, an earlier element that both have differs too. For the compression,
    // this is the kind, which precedes its options. See describe_plan() for the other options. So
    // either both iterators are at the end or both point to an element.
    const auto [a, b] =
        std::ranges::mismatch(std::span(first).subspan(common), std::span(other).subspan(common));
    if (a != std::span(first).end())
      return fmt::format("gradients '{}': {} on {} and {} on {}", plan_name, describe_settings(*a),
                         rank_names[0], describe_settings(*b), rank_names[r]);
  }
  return {};
}

// Equal descriptions have equal hashes, because the encoding does not depend on the process. If the
// hashes differ, all ranks gather the same descriptions, so all ranks throw the same text.
void agree_on_plan(const std::string& plan_name, std::span<const coordinator::Request> description,
                   collectives::Collectives& collectives, const Topology& topology) {
  const std::vector<std::byte> encoded = coordinator::encode(description);
  if (collectives::all_equal(Hash().add_bytes(encoded.data(), encoded.size()).value(), collectives))
    return;
  std::vector<std::vector<coordinator::Request>> descriptions;
  std::vector<std::string> names;
  for (const std::vector<std::byte>& bytes :
       collectives::gather_all(encoded, collectives, topology)) {
    names.push_back(topology.describe(static_cast<int>(descriptions.size())));
    descriptions.push_back(coordinator::decode_request_list(bytes));
  }
  throw MismatchError(find_plan_mismatch(plan_name, descriptions, names));
}

// Ranks may release plans at different times, so the new number is the largest that any rank needs.
// mutex_ is not held during the collective. Otherwise a thread in release() would wait for other
// ranks. If a thread calls release() during the collective, the number may be larger than
// necessary, which does no harm.
int PlanNames::agree(const std::string& name, collectives::Collectives& collectives) {
  std::int64_t number = 1;
  {
    const std::scoped_lock lock(mutex_);
    const auto taken = taken_.find(name);
    if (taken != taken_.end()) number = *taken->second.rbegin() + 1;
  }
  collectives.allreduce({DataType::kInt64, &number, 1}, ReduceOp::kMax);
  const std::scoped_lock lock(mutex_);
  taken_[name].insert(static_cast<int>(number));
  return static_cast<int>(number);
}

void PlanNames::release(const std::string& name, int number) {
  const std::scoped_lock lock(mutex_);
  const auto taken = taken_.find(name);
  if (taken == taken_.end()) return;
  taken->second.erase(number);
  if (taken->second.empty()) taken_.erase(taken);
}

std::string numbered_name(const std::string& name, int number) {
  return number == 1 ? name : fmt::format("{}#{}", name, number);
}

}  // namespace horo::plan
