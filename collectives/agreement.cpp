#include "collectives/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>

#include "horo/base/error.h"

namespace horo::collectives {

bool all_equal(std::uint64_t signature, Collectives& collectives) {
  // The minimum of x is the smallest x. The minimum of ~x is ~(the largest x).
  std::int64_t extremes[2] = {std::bit_cast<std::int64_t>(signature),
                              std::bit_cast<std::int64_t>(~signature)};
  collectives.allreduce({DataType::kInt64, extremes, 2}, ReduceOp::kMin);
  return extremes[0] == ~extremes[1];
}

// Each rank contributes a vector of lengths that is zero except for its own entry. The sum of these
// vectors holds all lengths.
std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes,
                                               Collectives& collectives, const Topology& topology) {
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

std::string first_problem(const std::string& problem, Collectives& collectives,
                          const Topology& topology) {
  for (const auto& bytes : gather_all(std::as_bytes(std::span(problem)), collectives, topology))
    if (!bytes.empty()) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return {};
}

// Gathers the texts only if some rank has a problem. Otherwise the allreduce of the lengths is
// enough.
void require_no_problem(const std::string& problem, Collectives& collectives,
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

// The first byte of rank 0's text is ' ' before a result, '!' before the text of an
// InvalidArgument, and '?' before the text of another error.
std::string from_rank_0(const std::function<std::string()>& work, Collectives& collectives,
                        const Topology& topology) {
  std::string own;
  if (topology.rank == 0) {
    try {
      own = ' ';
      own += work();
    } catch (const InvalidArgument& error) {
      own = std::string("!") + error.what();
    } catch (const std::exception& error) {
      own = std::string("?") + error.what();
    }
  }
  const auto all = gather_all(std::as_bytes(std::span(own)), collectives, topology);
  const std::string result(reinterpret_cast<const char*>(all[0].data()), all[0].size());
  if (result.starts_with('!')) throw InvalidArgument(result.substr(1));
  if (result.starts_with('?')) throw Error(result.substr(1));
  return result.substr(1);
}

}  // namespace horo::collectives
