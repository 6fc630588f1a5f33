#include "collectives/device/chunk_pipeline.h"

#include <fmt/format.h>

#include <utility>

#include "collectives/device/move_tiles.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "horo/device/cuda/nvtx_range.h"

namespace horo::collectives {
namespace {

using device::Priority;

// Alignment of each buffer, in bytes.
constexpr std::size_t kSlotAlignment = 256;

// Loads the kernels for all tensor types and wire types.
void load_kernels(device::Device& device) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    load_scale(device, type);
    for (const DataType wire : {type, DataType::kFloat16, DataType::kBFloat16})
      if (can_travel_as(type, wire)) load_movers(device, type, wire);
  }
}

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kSlotAlignment); }

device::Memory allocate(device::Device& device, std::size_t bytes) {
  return bytes == 0 ? device::Memory() : device.allocate(bytes);
}

}  // namespace

// The factors before and after the collective, and the operation of the collective.
struct ChunkPipeline::Factors {
  double into = 1, out_of = 1;
  std::int32_t divisor = 1;
  ReduceOp op;
  bool are_left;  // if true, the reader of the values applies out_of

  // For an average, values sent as float16 are divided before the collective. Otherwise a sum of
  // large values could overflow. Values of other types are divided after the collective, so that
  // the division rounds each result only once.
  Factors(const ReduceSpec& spec, DataType type, DataType wire, int size)
      : op(spec.op), are_left(spec.leave_as_reduced) {
    if (is_floating(type)) {
      into = spec.prescale;
      out_of = spec.postscale;
    }
    if (op != ReduceOp::kAverage) return;
    op = ReduceOp::kSum;
    if (!is_floating(type))
      divisor = size;
    else
      (wire == DataType::kFloat16 ? into : out_of) /= size;
  }
  // Integers have no prescale, so `into` is 1 for integers.
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
  // The collective also reduces the alignment gaps between tensors. Without these zeros, it would
  // read uninitialized memory there.
  if (memory_.size() > 0) pack_->fill(memory_.data(), 0, memory_.size());
}

std::unique_ptr<ChunkPipeline> ChunkPipeline::make(device::Device& device,
                                                   DeviceCollectives& collectives,
                                                   std::size_t buffer_bytes, const Options& options,
                                                   Collectives& control) {
  device::Memory memory =
      collectives.allocate_buffer(device, memory_bytes(buffer_bytes, options), control);
  return std::make_unique<ChunkPipeline>(device, collectives, std::move(memory), buffer_bytes,
                                         options);
}

ChunkPipeline::~ChunkPipeline() {
  for (device::Stream* stream : {pack_.get(), travel_.get(), unpack_.get()}) {
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // The code that waits for the allreduce also receives this error.
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

double ChunkPipeline::factor_left(const ReduceSpec& spec, DataType type, DataType wire, int ranks) {
  return Factors(spec, type, wire, ranks).out_of;
}

// Each call reuses the events of the previous calls. This is safe because Stream::wait() waits for
// the latest record() before the wait. A later record() does not change what the stream waits for.
ChunkPipeline::EventSet& ChunkPipeline::event_set(std::size_t chunk) {
  while (event_sets_.size() <= chunk)
    event_sets_.push_back({device_.make_event(), device_.make_event()});
  return event_sets_[chunk];
}

// All collectives run on travel_, in the order of the calls. The order is therefore the same on all
// ranks if all ranks make the calls in the same order.
void ChunkPipeline::allreduce(const FusedLayout& layout, const ReduceSpec& spec,
                              std::span<const device::Event* const> ready, device::Event& done,
                              device::Event* begun) {
  HORO_CHECK(layout.place() + layout.buffer_bytes() <= buffer_bytes_,
             fmt::format("a bucket of {} bytes does not fit into a fused buffer of {}",
                         layout.place() + layout.buffer_bytes(), buffer_bytes_));
  HORO_CHECK(!spec.leave_as_reduced || is_floating(layout.type()),
             fmt::format("leave_as_reduced requires a floating-point type, not {}",
                         name_of(layout.type())));
  const Factors factors(spec, layout.type(), layout.wire(), collectives_.size());
  for (const device::Event* event : ready) pack_->wait(*event);
  if (begun != nullptr) pack_->record(*begun);
  if (!layout.in_place().empty()) reduce_in_place(layout, factors);
  if (!layout.chunks().empty()) reduce_packed(layout, factors);
  unpack_->record(done);
}

// Without scaling, all work on the spans is on travel_, between two events.
void ChunkPipeline::reduce_spans(const FusedLayout& layout, ReduceOp op) {
  const device::NvtxRange enqueued("spans in place", layout.spans().size());
  EventSet& events = event_set(0);
  pack_->record(*events.packed);
  travel_->wait(*events.packed);
  parts_.clear();
  for (const auto& [data, count] : layout.spans()) parts_.push_back({data, count});
  collectives_.allreduce_parts(parts_, layout.wire(), op, *travel_);
  travel_->record(*events.reduced);
  unpack_->wait(*events.reduced);
}

// Chunks share no memory, so an event is needed only where a chunk moves from one stream to the
// next.
void ChunkPipeline::reduce_in_place(const FusedLayout& layout, const Factors& factors) {
  if (!factors.change_before() && !factors.change_after()) return reduce_spans(layout, factors.op);
  const auto& spans = layout.in_place();
  const auto change = [&](device::Stream& stream, const FusedLayout::Span& span, double factor,
                          std::int32_t divisor) {
    scale(stream, blocks_, span.data, layout.type(), span.count, factor, divisor);
  };
  for (std::size_t c = 0; c < spans.size(); ++c) {
    const device::NvtxRange enqueued("chunk in place", c);
    EventSet& events = event_set(c);
    if (factors.change_before()) change(*pack_, spans[c], factors.into, 1);
    if (c == 0 || factors.change_before()) {
      pack_->record(*events.packed);
      travel_->wait(*events.packed);
    }
    collectives_.allreduce(spans[c].data, layout.wire(), spans[c].count, factors.op, *travel_);
    if (c + 1 == spans.size() || factors.change_after()) {
      travel_->record(*events.reduced);
      unpack_->wait(*events.reduced);
    }
    if (factors.change_after()) change(*unpack_, spans[c], factors.out_of, factors.divisor);
  }
}

// pack_ waits for is_free, so that no call packs into a buffer before the previous contents are
// unpacked. With leave_as_reduced, this function neither waits for is_free nor records it, because
// there is no unpack. The caller must read the buffer before it marks the tensors ready again.
void ChunkPipeline::reduce_packed(const FusedLayout& layout, const Factors& factors) {
  Buffer& buffer = buffers_[calls_++ % buffers_.size()];
  if (!factors.are_left) pack_->wait(*buffer.is_free);
  std::byte* const data = buffer.data + layout.place();
  for (std::size_t c = 0; c < layout.chunks().size(); ++c) {
    const device::NvtxRange enqueued("chunk", c);
    const FusedLayout::Chunk& chunk = layout.chunks()[c];
    const TileTable& table = layout.tables()[chunk.table];
    TileMove move{data, chunk.first_tile, chunk.last_tile, factors.into};
    EventSet& events = event_set(c);

    pack(*pack_, blocks_, table, move, layout.type(), layout.wire());
    pack_->record(*events.packed);

    travel_->wait(*events.packed);
    collectives_.allreduce(data + chunk.offset * size_of(layout.wire()), layout.wire(), chunk.count,
                           factors.op, *travel_);
    if (factors.are_left && c + 1 < layout.chunks().size()) continue;
    travel_->record(*events.reduced);

    unpack_->wait(*events.reduced);
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

// A captured stream cannot wait for events recorded outside of the capture. Graphs therefore use
// separate is_free events. They are recorded at the start of the graph, where all buffers are free.
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
