#include "collectives/device/chunk_pipeline.h"

#include <fmt/format.h>

#include "collectives/device/move_tiles.h"
#include "horo/base/device/nvtx_range.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

using device::Priority;

// What is done to values on the way into the buffer and out of it, and what travels is reduced by.
struct Factors {
  double into = 1, out_of = 1;
  std::int32_t divisor = 1;
  ReduceOp op;
};

// float16 is scaled down before it travels, since a sum of large values would be infinite; any
// other type after it, so that it is rounded once.
Factors factors_of(const ChunkPipeline::Treatment& treatment, DataType type, DataType wire,
                   int size) {
  Factors factors{treatment.prescale, treatment.postscale, 1, treatment.op};
  if (treatment.op != ReduceOp::kAverage) return factors;
  factors.op = ReduceOp::kSum;
  if (!is_floating(type))
    factors.divisor = size;
  else
    (wire == DataType::kFloat16 ? factors.into : factors.out_of) /= size;
  return factors;
}

// Those of any layout.
void load_kernels(device::Device& device) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const DataType wire : {type, DataType::kFloat16, DataType::kBFloat16})
      if (can_travel_as(type, wire)) load_movers(device, type, wire);
  }
}

}  // namespace

ChunkPipeline::ChunkPipeline(device::Device& device, DeviceCollectives& collectives,
                             std::size_t buffer_bytes, const Options& options)
    : device_(device),
      collectives_(collectives),
      blocks_(options.blocks_per_launch > 0 ? options.blocks_per_launch : device.full_grid()),
      pack_(device.make_stream(Priority::kHigh)),
      travel_(device.make_stream(Priority::kHigh)),
      unpack_(device.make_stream(Priority::kHigh)) {
  load_kernels(device);
  for (int b = 0; b < options.buffers; ++b)
    buffers_.push_back({device.allocate(buffer_bytes), device.make_event()});
  // The gaps between tensors travel too.
  for (const Buffer& buffer : buffers_) pack_->fill(buffer.memory.data(), 0, buffer_bytes);
}

ChunkPipeline::~ChunkPipeline() {
  for (device::Stream* stream : {pack_.get(), travel_.get(), unpack_.get()}) {
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // Whoever waited for the exchange has been told.
    }
  }
}

ChunkPipeline::Joints& ChunkPipeline::joints(std::size_t chunk) {
  while (joints_.size() <= chunk) joints_.push_back({device_.make_event(), device_.make_event()});
  return joints_[chunk];
}

void ChunkPipeline::allreduce(const FusedLayout& layout, const Treatment& treatment,
                              std::span<const device::Event* const> ready, device::Event& done,
                              device::Event* begun) {
  Buffer& buffer = buffers_[calls_++ % buffers_.size()];
  HORO_CHECK(layout.buffer_bytes() <= buffer.memory.size(),
             fmt::format("a bucket of {} bytes does not fit into a fused buffer of {}",
                         layout.buffer_bytes(), buffer.memory.size()));
  const Factors factors = factors_of(treatment, layout.type(), layout.wire(), collectives_.size());
  pack_->wait(*buffer.is_free);
  for (const device::Event* event : ready) pack_->wait(*event);
  if (begun != nullptr) pack_->record(*begun);
  for (std::size_t c = 0; c < layout.chunks().size(); ++c) {
    const device::NvtxRange enqueued("chunk", c);
    const FusedLayout::Chunk& chunk = layout.chunks()[c];
    const TileTable& table = layout.tables()[chunk.table];
    TileMove move{buffer.memory.data(), chunk.first_tile, chunk.last_tile, factors.into};
    Joints& joint = joints(c);

    pack(*pack_, blocks_, table, move, layout.type(), layout.wire());
    pack_->record(*joint.packed);

    travel_->wait(*joint.packed);
    collectives_.allreduce(buffer.memory.data() + chunk.offset * size_of(layout.wire()),
                           layout.wire(), chunk.count, factors.op, *travel_);
    travel_->record(*joint.reduced);

    unpack_->wait(*joint.reduced);
    move.scale = factors.out_of;
    move.divisor = factors.divisor;
    unpack(*unpack_, blocks_, table, move, layout.type(), layout.wire());
  }
  unpack_->record(*buffer.is_free);
  unpack_->record(done);
}

}  // namespace horo::collectives
