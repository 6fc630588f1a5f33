#include "collectives/device/hierarchical_device_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/sub_group.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {
namespace {

// Shards begin at multiples of this many elements, so that vector loads of every type are aligned.
constexpr std::size_t kPartAlignment = 128;
// An alltoall places one block per rank in each half of a slot. Each block has room for at least
// this many bytes.
constexpr std::size_t kLeastBlockBytes = 64;

std::size_t slot_bytes_for(int ranks, std::size_t wished) {
  const std::size_t least = 2 * kLeastBlockBytes * static_cast<std::size_t>(ranks);
  return round_up(std::max(wished, least), kPartAlignment * sizeof(double));
}

bool have_equally_many(const NodeLayout& layout) {
  for (int node = 0; node < layout.node_count(); ++node)
    if (layout.local_size(node) != layout.columns()) return false;
  return true;
}

void require_reduction(ReduceOp op) {
  if (op == ReduceOp::kAdasum)
    throw InvalidArgument("Adasum is not supported on device memory; use sum or average");
}

// Returns, for each block, the size of its part in the round that begins at byte `begin` of each
// block. A part has at most `most` bytes. The part of the block `own` is empty.
std::vector<std::size_t> bytes_in_round(std::span<const std::size_t> blocks, std::size_t begin,
                                        std::size_t most, int own) {
  std::vector<std::size_t> bytes;
  for (const std::size_t block : blocks)
    bytes.push_back(std::min(block - std::min(begin, block), most));
  bytes[static_cast<std::size_t>(own)] = 0;
  return bytes;
}

// Returns the positions of the parts whose sizes are `bytes`. In device memory, the blocks are
// consecutive from `data` on, and each part begins at byte `begin` of its block. In a slot, the
// parts are consecutive from `offset` on.
template <typename Byte>
std::vector<HostExchange::Piece<Byte>> pieces_of(Byte* data, std::span<const std::size_t> blocks,
                                                 std::size_t begin,
                                                 const std::vector<std::size_t>& bytes,
                                                 std::size_t offset) {
  std::vector<HostExchange::Piece<Byte>> pieces;
  for (std::size_t r = 0; r < blocks.size(); data += blocks[r], offset += bytes[r], ++r)
    if (bytes[r] > 0) pieces.push_back({data + begin, offset, bytes[r]});
  return pieces;
}

}  // namespace

HierarchicalDeviceCollectives::HierarchicalDeviceCollectives(
    device::Device& device, const Topology& topology, Levels levels, const Options& options,
    std::function<void(const std::string&)> abort)
    : topology_(topology),
      layout_(topology),
      is_even_(have_equally_many(layout_)),
      abort_(std::move(abort)),
      levels_(std::move(levels)),
      ended_(device.make_event()),
      exchange_(device, slot_bytes_for(topology.size, options.slot_bytes), failure_) {
  // Groups with common ranks need different tags. Columns have no common ranks, so all columns use
  // the same tags.
  std::vector<int> everyone(static_cast<std::size_t>(topology.size));
  for (int r = 0; r < topology.size; ++r) everyone[static_cast<std::size_t>(r)] = r;
  PointToPoint& peers = *levels_.peers;
  all_.emplace(peers, topology_, everyone, 0, options);
  node_.emplace(peers, topology_, topology_.ranks_of(topology_.node), kTagCount, options);
  if (is_even_ || layout_.local_rank() == 0)
    column_.emplace(peers, topology_, layout_.column_ranks(layout_.local_rank()), 2 * kTagCount,
                    options);
}

// Ends the thread of exchange_, which uses the peers. Then destroys the peers before
// the other members: after a failure, transfers that access memory of these members may still be in
// flight.
HierarchicalDeviceCollectives::~HierarchicalDeviceCollectives() {
  exchange_.finish();
  levels_.peers.reset();
}

// Returns the number of elements that fit into a slot.
std::size_t HierarchicalDeviceCollectives::slot_count(DataType type) const {
  return exchange_.slot_bytes() / size_of(type);
}

// Returns how many of `count` elements each rank of the node exchanges.
std::vector<std::size_t> HierarchicalDeviceCollectives::shards(std::size_t count) const {
  if (!is_even_) return all_to(0, count);
  const auto ranks = static_cast<std::size_t>(layout_.columns());
  const std::size_t each = round_up((count + ranks - 1) / ranks, kPartAlignment);
  std::vector<std::size_t> shards;
  for (std::size_t r = 0; r < ranks; ++r)
    shards.push_back(std::min(each, count - std::min(count, r * each)));
  return shards;
}

// Returns sizes for the ranks of the node: `size` for `local_rank`, zero for the other ranks.
std::vector<std::size_t> HierarchicalDeviceCollectives::all_to(int local_rank,
                                                               std::size_t size) const {
  std::vector<std::size_t> sizes(static_cast<std::size_t>(layout_.local_size(layout_.node())), 0);
  sizes[static_cast<std::size_t>(local_rank)] = size;
  return sizes;
}

// Orders collectives on different streams by the order of the calls. The collectives share the
// slots, and their messages must have the same order on all ranks.
void HierarchicalDeviceCollectives::begin(device::Stream& stream) {
  if (const auto why = failure()) throw CommunicationError(*why);
  stream.wait(*ended_);
}

void HierarchicalDeviceCollectives::end(device::Stream& stream) {
  exchange_.await_all(stream);
  if (levels_.node != nullptr) exchange_.call(stream, [this] { agree_in_node(); });
  stream.record(*ended_);
}

void HierarchicalDeviceCollectives::allreduce(void* data, DataType type, std::size_t count,
                                              ReduceOp op, device::Stream& stream) {
  if (is_one_node()) return levels_.node->allreduce(data, type, count, op, stream);
  require_reduction(op);
  begin(stream);
  if (count == 0) return;
  // The loop enqueues the gather of a part only after the reductions of the next kAhead parts. The
  // devices of a node therefore work on one part while another part is exchanged between the nodes.
  constexpr std::size_t kAhead = HostExchange::kSlots - 1;
  auto* const bytes = static_cast<std::byte*>(data);
  const std::size_t most =
      slot_count(type) * static_cast<std::size_t>(is_even_ ? layout_.columns() : 1);
  const std::size_t parts = (count + most - 1) / most;
  const auto data_of = [&](std::size_t part) { return bytes + part * most * size_of(type); };
  const auto count_of = [&](std::size_t part) { return std::min(most, count - part * most); };
  std::array<Slot*, HostExchange::kSlots> slots{};
  for (std::size_t k = 0; k < parts + kAhead; ++k) {
    if (k < parts)
      slots[k % slots.size()] = &reduce_part(data_of(k), type, count_of(k), op, stream);
    if (k < kAhead) continue;
    const std::size_t oldest = k - kAhead;
    gather_part(*slots[oldest % slots.size()], data_of(oldest), type, count_of(oldest), stream);
  }
  end(stream);
}

void HierarchicalDeviceCollectives::allreduce_parts(std::span<const Part> parts, DataType type,
                                                    ReduceOp op, device::Stream& stream) {
  if (is_one_node()) return levels_.node->allreduce_parts(parts, type, op, stream);
  DeviceCollectives::allreduce_parts(parts, type, op, stream);
}

// The next use of the slot overwrites its staging memory. allreduce() enqueues gather_part() for
// this part before the next use, on the same stream, so gather_part() reads the memory first.
HostExchange::Slot& HierarchicalDeviceCollectives::reduce_part(std::byte* data, DataType type,
                                                               std::size_t count, ReduceOp op,
                                                               device::Stream& stream) {
  Slot& slot = exchange_.next(stream);
  std::byte* own = data;
  std::size_t own_count = count;
  if (levels_.node != nullptr) {
    const auto count_of = shards(count);
    own = slot.staging.data();
    own_count = count_of[static_cast<std::size_t>(layout_.local_rank())];
    levels_.node->reduce_scatter(data, type, count_of, own, without_division(op), stream);
  }
  // A rank without a shard does not call pass(). slot.returned then marks the previous use of the
  // slot, for which next() has already made the stream wait.
  if (own_count == 0) return slot;
  const std::size_t bytes = own_count * size_of(type);
  const Down down{own, 0, bytes};
  const Up up{own, 0, bytes};
  const auto work = [this, type, own_count, op](std::byte* pinned) {
    const ScatteredBuffer values(type, pinned, own_count);
    column_->ring.allreduce(values, without_division(op));
    divide_if_average(values, op, size());
  };
  exchange_.pass(slot, stream, std::span(&down, 1), work, std::span(&up, 1));
  return slot;
}

void HierarchicalDeviceCollectives::gather_part(Slot& slot, std::byte* data, DataType type,
                                                std::size_t count, device::Stream& stream) {
  stream.wait(*slot.returned);
  if (levels_.node == nullptr) return;
  auto bytes_of = shards(count);
  for (std::size_t& bytes : bytes_of) bytes *= size_of(type);
  levels_.node->allgather(slot.staging.data(), bytes_of, data, stream);
}

void HierarchicalDeviceCollectives::broadcast(void* data, std::size_t bytes, int root,
                                              device::Stream& stream) {
  if (is_one_node()) return levels_.node->broadcast(data, bytes, root, stream);
  begin(stream);
  const Copy copy{static_cast<std::byte*>(data), bytes, root};
  distribute(std::span(&copy, 1), stream);
  end(stream);
}

void HierarchicalDeviceCollectives::allgather(const void* input,
                                              std::span<const std::size_t> bytes_of, void* output,
                                              device::Stream& stream) {
  if (is_one_node()) return levels_.node->allgather(input, bytes_of, output, stream);
  begin(stream);
  std::vector<Copy> copies;
  auto* place = static_cast<std::byte*>(output);
  for (int r = 0; r < size(); ++r) {
    copies.push_back({place, bytes_of[static_cast<std::size_t>(r)], r});
    if (r == rank() && input != place) stream.copy(place, input, copies.back().bytes);
    place += copies.back().bytes;
  }
  distribute(copies, stream);
  end(stream);
}

// Enqueues each step for all `copies` before the next step, so that exchanges over different
// columns overlap.
void HierarchicalDeviceCollectives::distribute(std::span<const Copy> copies,
                                               device::Stream& stream) {
  DeviceCollectives* const node = levels_.node.get();
  for (const Copy& copy : copies)
    if (node != nullptr && is_in_node(copy.root))
      node->broadcast(copy.data, copy.bytes, layout_.local_rank_of(copy.root), stream);
  for (const Copy& copy : copies)
    if (exchanges_for(copy.root)) exchange(copy, stream);
  exchange_.await_all(stream);
  for (const Copy& copy : copies)
    if (node != nullptr && !is_in_node(copy.root))
      node->broadcast(copy.data, copy.bytes, column_of(copy.root), stream);
}

void HierarchicalDeviceCollectives::exchange(const Copy& copy, device::Stream& stream) {
  for (std::size_t at = 0; at < copy.bytes; at += exchange_.slot_bytes()) {
    const std::size_t bytes = std::min(exchange_.slot_bytes(), copy.bytes - at);
    const Down down{copy.data + at, 0, bytes};
    const Up up{copy.data + at, 0, bytes};
    const auto work = [this, bytes, node = layout_.node_of(copy.root)](std::byte* pinned) {
      column_->ring.broadcast(ScatteredBuffer(DataType::kUInt8, pinned, bytes), node);
    };
    const bool is_source = is_in_node(copy.root);
    exchange_.pass(exchange_.next(stream), stream, std::span(&down, is_source ? 1 : 0), work,
                   std::span(&up, is_source ? 0 : 1));
  }
}

void HierarchicalDeviceCollectives::reduce_scatter(const void* input, DataType type,
                                                   std::span<const std::size_t> count_of,
                                                   void* output, ReduceOp op,
                                                   device::Stream& stream) {
  if (is_one_node()) return levels_.node->reduce_scatter(input, type, count_of, output, op, stream);
  require_reduction(op);
  begin(stream);
  const auto* part = static_cast<const std::byte*>(input);
  for (int r = 0; r < size(); ++r) {
    const std::size_t count = count_of[static_cast<std::size_t>(r)];
    reduce_to(r, part, type, count, static_cast<std::byte*>(output), op, stream);
    part += count * size_of(type);
  }
  end(stream);
}

// First, each node reduces the values to its rank with the local rank column_of(rank). Then these
// ranks reduce the values to the one of them that is on the node of `rank`. If that one is not
// `rank`, hand_over() copies the result to `rank`.
void HierarchicalDeviceCollectives::reduce_to(int rank, const std::byte* input, DataType type,
                                              std::size_t count, std::byte* output, ReduceOp op,
                                              device::Stream& stream) {
  for (std::size_t at = 0; at < count; at += slot_count(type)) {
    const std::size_t n = std::min(slot_count(type), count - at);
    const std::size_t bytes = n * size_of(type);
    std::byte* const result = output + at * size_of(type);
    const std::byte* values = input + at * size_of(type);
    Slot& slot = exchange_.next(stream);
    if (levels_.node != nullptr) {
      levels_.node->reduce_scatter(values, type, all_to(column_of(rank), n), slot.staging.data(),
                                   without_division(op), stream);
      values = slot.staging.data();
    }
    if (exchanges_for(rank)) {
      const Down down{values, 0, bytes};
      const Up up{rank == topology_.rank ? result : slot.staging.data(), 0, bytes};
      exchange_.pass(
          slot, stream, std::span(&down, 1),
          [this, rank, type, n, op](std::byte* pinned) {
            reduce_column(rank, pinned, type, n, op);
          },
          std::span(&up, is_in_node(rank) ? 1 : 0));
    }
    if (is_in_node(rank) && column_of(rank) != layout_.local_rank_of(rank))
      hand_over(rank, slot, result, bytes, stream);
  }
}

// Reduces `values` over the column. Stores the result in `values` on the node of `rank`; on other
// nodes, `values` stays unchanged.
void HierarchicalDeviceCollectives::reduce_column(int rank, std::byte* values, DataType type,
                                                  std::size_t count, ReduceOp op) {
  std::vector<std::size_t> count_of(static_cast<std::size_t>(layout_.node_count()), 0);
  count_of[static_cast<std::size_t>(layout_.node_of(rank))] = count;
  std::byte* const reduced = ensure_size(scratch_, count * size_of(type));
  column_->ring.reduce_scatter(values, type, count_of, reduced, without_division(op));
  if (!is_in_node(rank)) return;
  divide_if_average(type, op, reduced, count, size());
  std::memcpy(values, reduced, count * size_of(type));
}

// Copies the part from the first rank of the node, which has the result, to `rank`.
void HierarchicalDeviceCollectives::hand_over(int rank, Slot& slot, std::byte* output,
                                              std::size_t bytes, device::Stream& stream) {
  const std::vector<std::size_t> nothing = all_to(0, 0);
  stream.wait(*slot.returned);
  levels_.node->alltoall(
      slot.staging.data(),
      layout_.local_rank() == 0 ? all_to(layout_.local_rank_of(rank), bytes) : nothing, output,
      rank == topology_.rank ? all_to(0, bytes) : nothing, stream);
}

void HierarchicalDeviceCollectives::alltoall(const void* input,
                                             std::span<const std::size_t> bytes_to, void* output,
                                             std::span<const std::size_t> bytes_from,
                                             device::Stream& stream) {
  if (is_one_node()) return levels_.node->alltoall(input, bytes_to, output, bytes_from, stream);
  begin(stream);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  const Range own = PartOffsets(bytes_to)[rank()];
  stream.copy(out + PartOffsets(bytes_from)[rank()].begin, in + own.begin, own.count());
  // In each round, both ranks of a pair compute the same sizes, and empty parts are not sent. Ranks
  // may therefore have different numbers of rounds.
  const std::size_t half = exchange_.slot_bytes() / 2;
  const std::size_t most = half / static_cast<std::size_t>(size());
  for (std::size_t begin = 0;; begin += most) {
    const auto to = bytes_in_round(bytes_to, begin, most, rank());
    const auto from = bytes_in_round(bytes_from, begin, most, rank());
    const auto down = pieces_of(in, bytes_to, begin, to, 0);
    const auto up = pieces_of(out, bytes_from, begin, from, half);
    if (down.empty() && up.empty()) break;
    const auto work = [this, to, from, half](std::byte* pinned) {
      all_->ring.alltoall({pinned, PartOffsets(to).total()}, to,
                          {pinned + half, PartOffsets(from).total()}, from);
    };
    exchange_.pass(exchange_.next(stream), stream, down, work, up);
  }
  end(stream);
}

// Runs at the end of each collective. After a failed exchange, the data of a rank is undefined, and
// the other ranks of the node may have received this data. They must therefore fail as well.
// is_over_ then stays true on this rank, so the rank sends and awaits no message in later calls of
// this function.
void HierarchicalDeviceCollectives::agree_in_node() {
  if (std::exchange(is_over_, true)) return;
  std::int32_t lost = failure_.is_set() ? layout_.local_rank() + 1 : 0;
  std::array<char, 512> why{};  // the error text, truncated and zero-terminated
  try {
    node_->ring.allreduce({DataType::kInt32, &lost, 1}, ReduceOp::kMax);
    is_over_ = lost != 0;
    if (!is_over_) return;
    if (lost == layout_.local_rank() + 1) failure().value_or("").copy(why.data(), why.size() - 1);
    node_->ring.broadcast({DataType::kUInt8, why.data(), why.size()}, lost - 1);
  } catch (const std::exception& error) {
    return failure_.set(error.what());
  }
  failure_.set(fmt::format("{} on the same node failed to exchange data with other nodes: {}",
                           topology_.describe(layout_.rank_at(layout_.node(), lost - 1)),
                           why.data()));
}

std::optional<std::string> HierarchicalDeviceCollectives::failure() const {
  if (failure_.is_set()) return failure_.text();
  return levels_.node != nullptr ? levels_.node->failure() : std::nullopt;
}

void HierarchicalDeviceCollectives::abort(const std::string& reason) noexcept {
  failure_.set("the exchange between nodes was aborted: " + reason);
  abort_(reason);
  if (levels_.node != nullptr) levels_.node->abort(reason);
}

}  // namespace horo::collectives
