#include "collectives/device/chunk_pipeline.h"

#include <fmt/format.h>

#include <utility>

#include "collectives/device/move_tiles.h"
#include "collectives/device/scale.h"
#include "horo/base/device/nvtx_range.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

using device::Priority;

// Where a buffer may begin.
constexpr std::size_t kAlignment = 256;

// Those of any layout.
void load_kernels(device::Device& device) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    load_scale(device, type);
    for (const DataType wire : {type, DataType::kFloat16, DataType::kBFloat16})
      if (can_travel_as(type, wire)) load_movers(device, type, wire);
  }
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

device::Memory allocate(device::Device& device, std::size_t bytes) {
  return bytes == 0 ? device::Memory() : device.allocate(bytes);
}

}  // namespace

// What is done to values before they travel and after, and what travels is reduced by.
struct ChunkPipeline::Factors {
  double into = 1, out_of = 1;
  std::int32_t divisor = 1;
  ReduceOp op;
  bool are_left;  // to whoever reads the values: those after

  // float16 is scaled down before it travels, since a sum of large values would be infinite; any
  // other type after it, so that it is rounded once.
  Factors(const Treatment& treatment, DataType type, DataType wire, int size)
      : op(treatment.op), are_left(treatment.leave_as_reduced) {
    if (is_floating(type)) {
      into = treatment.prescale;
      out_of = treatment.postscale;
    }
    if (op != ReduceOp::kAverage) return;
    op = ReduceOp::kSum;
    if (!is_floating(type))
      divisor = size;
    else
      (wire == DataType::kFloat16 ? into : out_of) /= size;
  }
  bool change_before() const { return into != 1; }
  bool change_after() const { return !are_left && (out_of != 1 || divisor != 1); }
};

ChunkPipeline::ChunkPipeline(device::Device& device, DeviceCollectives& collectives,
                             std::size_t buffer_bytes, const Options& options)
    : ChunkPipeline(device, collectives, allocate(device, memory_bytes(buffer_bytes, options)),
                    buffer_bytes, options) {}

ChunkPipeline::ChunkPipeline(device::Device& device, DeviceCollectives& collectives,
                             device::Memory memory, std::size_t buffer_bytes,
                             const Options& options)
    : device_(device),
      collectives_(collectives),
      blocks_(options.blocks_per_launch > 0 ? options.blocks_per_launch : device.full_grid()),
      buffer_bytes_(buffer_bytes),
      memory_(std::move(memory)),
      pack_(device.make_stream(Priority::kHigh)),
      travel_(device.make_stream(Priority::kHigh)),
      unpack_(device.make_stream(Priority::kHigh)),
      forked_(device.make_event()),
      joined_(device.make_event()) {
  load_kernels(device);
  for (std::size_t b = 0; b < static_cast<std::size_t>(options.buffers); ++b)
    buffers_.push_back(
        {memory_.data() + b * aligned(buffer_bytes), device.make_event(), device.make_event()});
  // The gaps between tensors travel too.
  if (memory_.size() > 0) pack_->fill(memory_.data(), 0, memory_.size());
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

std::size_t ChunkPipeline::memory_bytes(std::size_t buffer_bytes, const Options& options) {
  return aligned(buffer_bytes) * static_cast<std::size_t>(options.buffers);
}

std::size_t ChunkPipeline::place_apart(std::span<FusedLayout> layouts) {
  std::size_t bytes = 0;
  for (FusedLayout& layout : layouts) {
    layout.set_place(bytes);
    bytes += aligned(layout.buffer_bytes());
  }
  return bytes;
}

double ChunkPipeline::factor_left(const Treatment& treatment, DataType type, DataType wire,
                                  int ranks) {
  return Factors(treatment, type, wire, ranks).out_of;
}

ChunkPipeline::Joints& ChunkPipeline::joints(std::size_t chunk) {
  while (joints_.size() <= chunk) joints_.push_back({device_.make_event(), device_.make_event()});
  return joints_[chunk];
}

void ChunkPipeline::allreduce(const FusedLayout& layout, const Treatment& treatment,
                              std::span<const device::Event* const> ready, device::Event& done,
                              device::Event* begun) {
  HORO_CHECK(layout.place() + layout.buffer_bytes() <= buffer_bytes_,
             fmt::format("a bucket of {} bytes does not fit into a fused buffer of {}",
                         layout.place() + layout.buffer_bytes(), buffer_bytes_));
  HORO_CHECK(!treatment.leave_as_reduced || is_floating(layout.type()),
             fmt::format("{} cannot be left as it is reduced", name_of(layout.type())));
  const Factors factors(treatment, layout.type(), layout.wire(), collectives_.size());
  for (const device::Event* event : ready) pack_->wait(*event);
  if (begun != nullptr) pack_->record(*begun);
  if (!layout.in_place().empty()) reduce_in_place(layout, factors);
  if (!layout.chunks().empty()) reduce_packed(layout, factors);
  unpack_->record(done);
}

// A stream is joined only where another has work for it to wait for.
void ChunkPipeline::reduce_in_place(const FusedLayout& layout, const Factors& factors) {
  const auto& stretches = layout.in_place();
  const auto change = [&](device::Stream& stream, const FusedLayout::Stretch& stretch,
                          double factor, std::int32_t divisor) {
    scale(stream, blocks_, stretch.data, layout.type(), stretch.count, factor, divisor);
  };
  for (std::size_t c = 0; c < stretches.size(); ++c) {
    const device::NvtxRange enqueued("chunk in place", c);
    Joints& joint = joints(c);
    if (factors.change_before()) change(*pack_, stretches[c], factors.into, 1);
    if (c == 0 || factors.change_before()) {
      pack_->record(*joint.packed);
      travel_->wait(*joint.packed);
    }
    collectives_.allreduce(stretches[c].data, layout.wire(), stretches[c].count, factors.op,
                           *travel_);
    if (c + 1 == stretches.size() || factors.change_after()) {
      travel_->record(*joint.reduced);
      unpack_->wait(*joint.reduced);
    }
    if (factors.change_after()) change(*unpack_, stretches[c], factors.out_of, factors.divisor);
  }
}

// What is left in a buffer is read there before it is marked ready again: none has to be free.
void ChunkPipeline::reduce_packed(const FusedLayout& layout, const Factors& factors) {
  Buffer& buffer = buffers_[calls_++ % buffers_.size()];
  if (!factors.are_left) pack_->wait(*buffer.is_free);
  std::byte* const data = buffer.data + layout.place();
  for (std::size_t c = 0; c < layout.chunks().size(); ++c) {
    const device::NvtxRange enqueued("chunk", c);
    const FusedLayout::Chunk& chunk = layout.chunks()[c];
    const TileTable& table = layout.tables()[chunk.table];
    TileMove move{data, chunk.first_tile, chunk.last_tile, factors.into};
    Joints& joint = joints(c);

    pack(*pack_, blocks_, table, move, layout.type(), layout.wire());
    pack_->record(*joint.packed);

    travel_->wait(*joint.packed);
    collectives_.allreduce(data + chunk.offset * size_of(layout.wire()), layout.wire(), chunk.count,
                           factors.op, *travel_);
    if (factors.are_left && c + 1 < layout.chunks().size()) continue;
    travel_->record(*joint.reduced);

    unpack_->wait(*joint.reduced);
    if (factors.are_left) return;
    move.scale = factors.out_of;
    move.divisor = factors.divisor;
    unpack(*unpack_, blocks_, table, move, layout.type(), layout.wire());
  }
  unpack_->record(*buffer.is_free);
}

void ChunkPipeline::fork(device::Stream& stream) {
  stream.record(*forked_);
  for (device::Stream* own : {pack_.get(), travel_.get(), unpack_.get()}) own->wait(*forked_);
}

void ChunkPipeline::join(device::Stream& stream) {
  for (device::Stream* own : {pack_.get(), travel_.get(), unpack_.get()}) {
    own->record(*joined_);
    stream.wait(*joined_);
  }
}

// A graph cannot wait for events from outside: all buffers are free when it begins.
void ChunkPipeline::begin_capture(device::Stream& stream) {
  exchange_events();
  fork(stream);
  for (const Buffer& buffer : buffers_) pack_->record(*buffer.is_free);
}

void ChunkPipeline::end_capture() noexcept { exchange_events(); }

void ChunkPipeline::exchange_events() noexcept {
  for (Buffer& buffer : buffers_) buffer.is_free.swap(buffer.is_free_in_other);
}

}  // namespace horo::collectives
