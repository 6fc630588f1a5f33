#include "collectives/ring/ring_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collectives/chunks.h"
#include "collectives/point_to_point.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_algorithms.h"
#include "collectives/ring/ring_allreduce.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/sub_group.h"
#include "collectives/tree/tree_allreduce.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// The size up to which a broadcast uses the binomial tree. Larger broadcasts use the chain.
constexpr std::size_t kTreeBytes = 32 * 1024;

// The default names of ranks in errors.
std::vector<std::string> numbered(int size) {
  std::vector<std::string> names;
  for (int r = 0; r < size; ++r) names.push_back(fmt::format("rank {}", r));
  return names;
}

}  // namespace

RingCollectives::RingCollectives(PointToPoint& peers, std::size_t segment_bytes,
                                 std::vector<std::string> rank_names,
                                 const AllreduceSelection& selection)
    : peers_(peers),
      segment_bytes_(segment_bytes),
      selection_(selection),
      rank_names_(rank_names.empty() ? numbered(peers.size()) : std::move(rank_names)),
      flow_(peers_, rank_names_) {
  HORO_CHECK(segment_bytes > 0, "segment_bytes is 0; must be at least 1");
  HORO_CHECK(rank_names_.size() == static_cast<std::size_t>(peers.size()),
             fmt::format("{} rank names for {} ranks", rank_names_.size(), peers.size()));
}

void RingCollectives::allreduce(const ScatteredBuffer& buffer, ReduceOp op) {
  const bool is_narrow = wire_ && buffer.type() == DataType::kFloat32;
  switch (choose_allreduce(selection_, buffer.bytes(), peers_.size(), is_narrow ? 0.5 : 1)) {
    case MessageAllreduce::kExchange:
      return exchange_allreduce(peers_, rank_names_, buffer, op, staging_);
    case MessageAllreduce::kDoubling:
      return recursive_doubling_allreduce(peers_, rank_names_, buffer, op, staging_);
    case MessageAllreduce::kHalving:
      return halving_doubling_allreduce(peers_, rank_names_, buffer, op, staging_);
    case MessageAllreduce::kRing:
    case MessageAllreduce::kAuto:
      break;
  }
  if (is_narrow)
    ring_allreduce(flow_, peers_.rank(), peers_.size(), segment_bytes_, buffer, op,
                   Wire{*wire_, report_});
  else
    ring_allreduce(flow_, peers_.rank(), peers_.size(), segment_bytes_, buffer, op);
}

void RingCollectives::broadcast(const ScatteredBuffer& buffer, int root) {
  if (buffer.bytes() <= kTreeBytes)
    binomial_broadcast(peers_, rank_names_, buffer, root, staging_.bytes);
  else
    chain_broadcast(flow_, peers_.rank(), peers_.size(), segment_bytes_, buffer, root);
}

void RingCollectives::allgather(std::span<const std::byte> input,
                                std::span<const std::size_t> bytes_of,
                                std::span<std::byte> output) {
  ring_allgather(flow_, peers_.rank(), peers_.size(), segment_bytes_, input, bytes_of, output);
}

void RingCollectives::reduce_scatter(const std::byte* input, DataType type,
                                     std::span<const std::size_t> count_of, std::byte* output,
                                     ReduceOp op) {
  ring_reduce_scatter(flow_, peers_.rank(), peers_.size(), segment_bytes_, input, type, count_of,
                      output, op, staging_.bytes);
}

void RingCollectives::alltoall(std::span<const std::byte> input,
                               std::span<const std::size_t> bytes_to, std::span<std::byte> output,
                               std::span<const std::size_t> bytes_from) {
  pairwise_alltoall(flow_, peers_.rank(), peers_.size(), segment_bytes_,
                    AlltoallBlocks(input, bytes_to, output, bytes_from));
}

void RingCollectives::barrier() { dissemination_barrier(peers_, rank_names_); }

}  // namespace horo::collectives
