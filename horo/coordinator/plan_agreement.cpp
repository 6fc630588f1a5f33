#include "horo/coordinator/plan_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

bool all_equal(std::uint64_t signature, collectives::Collectives& collectives) {
  // The smallest of x and of ~x together give the smallest and the largest x.
  std::int64_t extremes[2] = {std::bit_cast<std::int64_t>(signature),
                              std::bit_cast<std::int64_t>(~signature)};
  collectives.allreduce({DataType::kInt64, extremes, 2}, ReduceOp::kMin);
  return extremes[0] == ~extremes[1];
}

std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               collectives::Collectives& collectives,
                                               const Topology& topology) {
  const auto size = static_cast<std::size_t>(topology.size);
  std::vector<std::int64_t> lengths(size, 0);
  lengths[topology.rank] = static_cast<std::int64_t>(bytes.size());
  collectives.allreduce({DataType::kInt64, lengths.data(), size}, ReduceOp::kSum);
  const std::vector<std::size_t> bytes_of(lengths.begin(), lengths.end());
  std::vector<std::byte> all(std::accumulate(bytes_of.begin(), bytes_of.end(), std::size_t{0}));
  collectives.allgather(bytes, bytes_of, all);
  std::vector<std::vector<std::byte>> parts;
  for (auto at = all.begin(); std::size_t length : bytes_of) {
    parts.emplace_back(at, at + static_cast<std::ptrdiff_t>(length));
    at += static_cast<std::ptrdiff_t>(length);
  }
  return parts;
}

void require_no_problem(const std::string& problem, collectives::Collectives& collectives,
                        const Topology& topology) {
  auto bytes = static_cast<std::int64_t>(problem.size());
  collectives.allreduce({DataType::kInt64, &bytes, 1}, ReduceOp::kMax);
  if (bytes == 0) return;
  const auto problems = gather_all(std::as_bytes(std::span(problem)), collectives, topology);
  const auto first = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  throw InvalidArgument(
      fmt::format("{}: {}", topology.describe(static_cast<int>(first - problems.begin())),
                  std::string_view(reinterpret_cast<const char*>(first->data()), first->size())));
}

void agree_on_plan(const std::string& plan_name, std::span<const Request> description,
                   collectives::Collectives& collectives, const Topology& topology) {
  const std::vector<std::byte> encoded = encode(description);
  if (all_equal(Hash().add_bytes(encoded.data(), encoded.size()).value(), collectives)) return;
  std::vector<std::vector<Request>> descriptions;
  std::vector<std::string> names;
  for (const std::vector<std::byte>& bytes : gather_all(encoded, collectives, topology)) {
    names.push_back(topology.describe(static_cast<int>(descriptions.size())));
    descriptions.push_back(decode_request_list(bytes));
  }
  throw MismatchError(find_plan_mismatch(plan_name, descriptions, names));
}

}  // namespace horo::coordinator
