#include "collectives/ring/ring_reduce_scatter.h"

#include <algorithm>

#include "collectives/part_offsets.h"
#include "collectives/reduce/division.h"
#include "collectives/reduce/kernels.h"
#include "collectives/ring/ring_segments.h"

namespace horo::collectives {
namespace {

// The input stays as it is: partial sums that travel on wait in `scratch`, which holds one chunk.
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
  void arrived(std::size_t receive, std::span<const std::byte> bytes) override {
    const Range range = segments_.received(receive);
    const bool is_complete = segments_.is_last_hop(receive);
    const std::byte* sources[] = {bytes.data(), data_.input + range.begin * width_};
    std::byte* out = is_complete ? data_.output + segments_.offset_in_chunk(receive) * width_
                                 : scratch_of(receive);
    reduce(data_.type, is_complete ? data_.op : without_division(data_.op), sources, range.count(),
           size_, out, Stores::kPlain);
  }
  // The segment of the previous step must have left its place in the scratch.
  bool may_take(std::size_t receive, std::size_t sends_done) const override {
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

}  // namespace

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

}  // namespace horo::collectives
