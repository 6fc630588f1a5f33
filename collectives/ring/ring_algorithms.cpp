#include "collectives/ring/ring_algorithms.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/point_to_point.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_schedule.h"
#include "collectives/ring/sub_group.h"

namespace horo::collectives {
namespace {

// A segment that is contiguous in the buffer is received directly into the buffer and sent directly
// from the buffer. Other segments pass through staging slots: a received segment is scattered from
// its slot to the buffer, and a segment to send is gathered from the buffer into another slot.
class BroadcastEnds : public FlowEnds {
 public:
  BroadcastEnds(const ScatteredBuffer& buffer, std::size_t segment_count)
      : buffer_(buffer), segment_count_(segment_count) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) override {
    const Range range = range_of(send);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    if (const std::byte* address = contiguous_address(buffer_, range)) return {address, bytes};
    gather(buffer_, range, slot.data());
    return slot.first(bytes);
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    const Range range = range_of(receive);
    const std::size_t bytes = range.count() * buffer_.element_bytes();
    std::byte* address = contiguous_address(buffer_, range);
    return address != nullptr ? std::span(address, bytes) : slot.first(bytes);
  }
  void process(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = range_of(receive);
    if (contiguous_address(buffer_, range) == nullptr) scatter(buffer_, range, bytes.data());
  }

 private:
  Range range_of(std::size_t segment) const {
    return segment_of({0, buffer_.count()}, segment, segment_count_);
  }
  const ScatteredBuffer& buffer_;
  std::size_t segment_count_;
};

// The input is not modified. Partial results are stored in `scratch`, which has room for the
// largest chunk.
class ReduceScatterEnds : public FlowEnds {
 public:
  struct Data {
    const std::byte* input;
    std::byte* output;
    std::byte* scratch;
    DataType type;
    ReduceOp op;
  };
  ReduceScatterEnds(const RingSegments& segments, int size, const Data& data)
      : segments_(segments),
        size_(static_cast<std::size_t>(size)),
        data_(data),
        width_(size_of(data.type)) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    const Range range = segments_.sent(send);
    const std::byte* from =
        segments_.is_first_hop(send) ? data_.input + range.begin * width_ : scratch_of(send);
    return {from, range.count() * width_};
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) override {
    return slot.first(segments_.received(receive).count() * width_);
  }
  void process(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = segments_.received(receive);
    const bool is_complete = segments_.is_last_hop(receive);
    const std::byte* sources[] = {bytes.data(), data_.input + range.begin * width_};
    std::byte* out = is_complete ? data_.output + segments_.offset_in_chunk(receive) * width_
                                 : scratch_of(receive);
    reduce(data_.type, is_complete ? data_.op : without_division(data_.op), sources, range.count(),
           size_, out, Stores::kPlain);
  }
  // Receive i may overwrite the part of the scratch that send i reads, so it is processed only
  // after send i is done. In the first step, sends read the input instead of the scratch.
  bool may_process(std::size_t receive, std::size_t sends_done) const override {
    return segments_.is_first_hop(receive) || receive < sends_done;
  }

 private:
  std::byte* scratch_of(std::size_t unit) const {
    return data_.scratch + segments_.offset_in_chunk(unit) * width_;
  }

  RingSegments segments_;
  std::size_t size_;
  Data data_;
  std::size_t width_;
};

// An allgather consists of the steps of an allreduce from step n - 1 on (see RingSchedule).
class AllgatherEnds : public FlowEnds {
 public:
  AllgatherEnds(const RingSegments& segments, std::span<std::byte> output)
      : segments_(segments), output_(output) {}

  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    return part(segments_.sent(unit_of(send)));
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte>) override {
    return part(segments_.received(unit_of(receive)));
  }
  void process(std::size_t, std::span<const std::byte>) override {}

 private:
  std::size_t unit_of(std::size_t segment) const {
    return segment + segments_.schedule().reduce_units();
  }
  std::span<std::byte> part(Range range) const {
    return output_.subspan(range.begin, range.count());
  }

  RingSegments segments_;
  std::span<std::byte> output_;
};

// A block that is cut into segments. The sender and the receiver of a block compute the same
// segments, because both pass the same block size and the same largest segment.
template <typename Byte>
class SegmentedBlock {
 public:
  SegmentedBlock(std::span<Byte> block, std::size_t largest_segment)
      : block_(block), segment_bytes_(segment_elements(block.size(), 1, largest_segment)) {}
  std::size_t segments() const {
    return block_.empty() ? 0 : segments_covering(block_.size(), segment_bytes_);
  }
  std::span<Byte> operator[](std::size_t index) const {
    const Range range = segment_of({0, block_.size()}, index, segment_bytes_);
    return block_.subspan(range.begin, range.count());
  }

 private:
  std::span<Byte> block_;
  std::size_t segment_bytes_;
};

class PairEnds : public FlowEnds {
 public:
  PairEnds(std::span<const std::byte> sent, std::span<std::byte> received,
           std::size_t segment_bytes)
      : sent_(sent, segment_bytes), received_(received, segment_bytes) {}

  std::size_t sends() const { return sent_.segments(); }
  std::size_t receives() const { return received_.segments(); }
  std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte>) override {
    return sent_[send];
  }
  std::span<std::byte> incoming(std::size_t receive, std::span<std::byte>) override {
    return received_[receive];
  }
  void process(std::size_t, std::span<const std::byte>) override {}

 private:
  SegmentedBlock<const std::byte> sent_;
  SegmentedBlock<std::byte> received_;
};

}  // namespace

void binomial_broadcast(PointToPoint& peers, const std::vector<std::string>& rank_names,
                        const ScatteredBuffer& buffer, int root, std::vector<std::byte>& staging) {
  const int size = peers.size();
  if (size == 1 || buffer.count() == 0) return;
  const int place = (peers.rank() - root + size) % size;  // position in the tree; the root is at 0
  const auto rank_at = [&](int p) { return (p + root) % size; };
  const Range all{0, buffer.count()};
  std::byte* data = contiguous_address(buffer, all);
  const bool is_staged = data == nullptr;
  if (is_staged) {
    if (staging.size() < buffer.bytes()) staging.resize(buffer.bytes());
    data = staging.data();
    if (place == 0) gather(buffer, all, data);
  }
  const std::span<std::byte> bytes(data, buffer.bytes());

  // `distance` becomes the distance to the parent, which is the lowest set bit of the place. For
  // the root, it becomes the smallest power of two that is not below the size.
  int distance = 1;
  while (distance < size && (place & distance) == 0) distance *= 2;
  if (place != 0) {
    const int parent = rank_at(place - distance);
    await(peers, peers.start_receive(parent, kBroadcastTag, bytes),
          "to send the data of a broadcast", rank_names[static_cast<std::size_t>(parent)]);
  }
  struct Child {
    int rank;
    PointToPoint::Ticket ticket;
  };
  std::vector<Child> children;
  // Starts with the child at the largest distance. If the number of ranks is a power of two, this
  // child has the deepest subtree.
  for (distance /= 2; distance > 0; distance /= 2)
    if (place + distance < size) {
      const int child = rank_at(place + distance);
      children.push_back({child, peers.start_send(child, kBroadcastTag, bytes)});
    }
  // Unpacks while the sends are in flight. Unpacking and the sends only read the staging memory.
  if (is_staged && place != 0) scatter(buffer, all, data);
  for (const Child& child : children)
    await(peers, child.ticket, "to receive a broadcast",
          rank_names[static_cast<std::size_t>(child.rank)]);
}

void chain_broadcast(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                     const ScatteredBuffer& buffer, int root) {
  if (size == 1 || buffer.count() == 0) return;
  const std::size_t segment_count =
      segment_elements(buffer.count(), buffer.element_bytes(), segment_bytes);
  const std::size_t segments = segments_covering(buffer.count(), segment_count);
  const int place = (rank - root + size) % size;
  BroadcastEnds ends(buffer, segment_count);
  SegmentFlow::Plan plan;
  plan.from = (rank + size - 1) % size;
  plan.to = (rank + 1) % size;
  plan.receives = place == 0 ? 0 : segments;
  plan.sends = place == size - 1 ? 0 : segments;
  plan.lead = place == 0 ? segments : 0;
  plan.slot_bytes = segment_count * buffer.element_bytes();
  plan.what = "a broadcast";
  flow.run(plan, ends);
}

void ring_reduce_scatter(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                         const std::byte* input, DataType type,
                         std::span<const std::size_t> count_of, std::byte* output, ReduceOp op,
                         std::vector<std::byte>& scratch) {
  const PartOffsets parts(count_of);
  const std::size_t width = size_of(type);
  if (size == 1) return copy(output, input, parts.total() * width, Stores::kPlain);
  const std::size_t largest = *std::max_element(count_of.begin(), count_of.end());
  if (largest == 0) return;
  const std::size_t segment_count = segment_elements(largest, width, segment_bytes);
  if (size > 2 && scratch.size() < largest * width) scratch.resize(largest * width);
  const RingSegments segments(rank, size, parts, largest, segment_count);
  ReduceScatterEnds ends(segments, size, {input, output, scratch.data(), type, op});
  flow.run(
      segments.plan(segments.schedule().reduce_units(), segment_count * width, "a reduce_scatter"),
      ends);
}

void ring_allgather(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                    std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                    std::span<std::byte> output) {
  const PartOffsets parts(bytes_of);
  std::byte* const own = output.data() + parts[rank].begin;
  if (!input.empty() && own != input.data()) std::memcpy(own, input.data(), input.size());
  const std::size_t largest = *std::max_element(bytes_of.begin(), bytes_of.end());
  if (size == 1 || largest == 0) return;
  const std::size_t segment = segment_elements(largest, 1, segment_bytes);
  const RingSegments segments(rank, size, parts, largest, segment);
  AllgatherEnds ends(segments, output);
  flow.run(segments.plan(segments.schedule().reduce_units(), 0, "an allgather"), ends);
}

// A rank starts a round only after its own previous round. It therefore posts receives from only
// one rank at a time.
void pairwise_alltoall(SegmentFlow& flow, int rank, int size, std::size_t segment_bytes,
                       const AlltoallBlocks& blocks) {
  blocks.copy_own(rank);
  for (int distance = 1; distance < size; ++distance) {
    SegmentFlow::Plan plan;
    plan.from = (rank + size - distance) % size;
    plan.to = (rank + distance) % size;
    PairEnds ends(blocks.to(plan.to), blocks.from(plan.from), segment_bytes);
    plan.receives = ends.receives();
    plan.sends = plan.lead = ends.sends();
    plan.what = "an alltoall";
    flow.run(plan, ends);
  }
}

// When a rank has completed round i, the nearest 2^(i+1) - 1 ranks behind it have entered the
// barrier. After the last round, these include all other ranks. One tag is enough, because in each
// round of a barrier a rank receives from a different rank, and messages from one rank arrive in
// order.
void dissemination_barrier(PointToPoint& peers, const std::vector<std::string>& rank_names) {
  const int size = peers.size();
  const int rank = peers.rank();
  const std::byte token{1};
  for (int distance = 1; distance < size; distance *= 2) {
    const int ahead = (rank + distance) % size;
    const int behind = (rank - distance % size + size) % size;
    std::byte arrived{};
    const auto receive = peers.start_receive(behind, kBarrierTag, {&arrived, 1});
    const auto send = peers.start_send(ahead, kBarrierTag, {&token, 1});
    await(peers, receive, "to reach a barrier", rank_names[static_cast<std::size_t>(behind)]);
    await(peers, send, "to reach a barrier", rank_names[static_cast<std::size_t>(ahead)]);
  }
}

}  // namespace horo::collectives
