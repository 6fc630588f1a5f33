#include "horo/device/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/graph_memory.h"

namespace horo::device {
namespace {

// Failed work counts as complete: the stream executes nothing after it.
bool is_over(const Event& event) {
  try {
    return event.is_done();
  } catch (const DeviceError&) {
    return true;
  }
}

void await(const Event& event) {
  try {
    event.synchronize();
  } catch (const DeviceError&) {
  }
}

struct Piece;

struct Block {
  Piece* piece;
  std::byte* data;
  // The stream that allocated the block last. That stream may reuse the block without a wait,
  // because the work of a stream runs in order.
  void* stream = nullptr;
  std::vector<void*> other_users;
  std::unique_ptr<Event> freed;  // recorded on `stream` when the block was freed
  // Recorded on other_users when the block was freed.
  std::vector<std::unique_ptr<Event>> other_events;

  bool is_free_for(void* user) const {
    if (!std::ranges::all_of(other_events, [](const auto& event) { return is_over(*event); }))
      return false;
    return user == stream || is_over(*freed);
  }
  void await_users() const {
    await(*freed);
    for (const auto& event : other_events) await(*event);
  }
};

// One allocation of the driver, cut into blocks of equal size.
struct Piece {
  Memory memory;
  std::size_t block_bytes;
  std::deque<Block> blocks;
  std::size_t in_use = 0;  // number of blocks in use
};

}  // namespace

// The state of an allocator. Each Memory holds a reference to this state, so memory may outlive the
// allocator. One mutex guards all members.
class CachingAllocator::Pool : public std::enable_shared_from_this<CachingAllocator::Pool> {
 public:
  explicit Pool(Device& device) : device_(device) {}
  ~Pool() { give_back(); }

  Memory allocate(std::size_t bytes, Stream& stream) {
    const std::shared_ptr<Capture> capture = stream.captured_in();
    const std::scoped_lock lock(mutex_);
    ++counters_.requests;
    if (capture != nullptr) return memory_of(capture).allocate(bytes, stream);
    Block* block = take(block_size(bytes), stream.native());
    if (block == nullptr) {
      add_piece(block_size(bytes), bytes);
      block = take(block_size(bytes), stream.native());
    }
    know(stream);
    block->stream = stream.native();
    block->other_users.clear();
    block->other_events.clear();
    ++block->piece->in_use;
    in_use_[block->data] = block;
    const std::size_t size = block->piece->block_bytes;
    counters_.cached_bytes -= size;
    counters_.in_use_bytes += size;
    counters_.peak_bytes = std::max(counters_.peak_bytes, counters_.in_use_bytes);
    return {block->data, bytes, [pool = shared_from_this()](void* data) { pool->put_back(data); }};
  }

  void note_use(const Memory& memory, Stream& stream) {
    const std::shared_ptr<Capture> capture = stream.captured_in();
    const std::scoped_lock lock(mutex_);
    for (const auto& [capture_of, graph] : graphs_)
      if (const auto alive = graph.lock(); alive && alive->note_use(memory.data(), stream)) return;
    const auto found = in_use_.find(memory.data());
    HORO_CHECK(found != in_use_.end(), "note_use: the memory does not belong to this allocator");
    HORO_CHECK(
        capture == nullptr,
        "note_use: the stream is being captured, and the memory does not belong to the graph; "
        "allocate it in the capture, or keep it as long as the graph");
    Block& block = *found->second;
    void* user = stream.native();
    if (user == block.stream || std::ranges::count(block.other_users, user) > 0) return;
    know(stream);
    block.other_users.push_back(user);
  }

  std::size_t trim() {
    const std::scoped_lock lock(mutex_);
    return give_back();
  }

  Counters counters() const {
    const std::scoped_lock lock(mutex_);
    Counters counters = counters_;
    counters.graph_bytes = *graph_bytes_;
    return counters;
  }

 private:
  // Returns the memory of the graph that is being captured. The graph owns this memory.
  GraphMemory& memory_of(const std::shared_ptr<Capture>& capture) {
    std::erase_if(graphs_, [](const auto& entry) { return entry.second.expired(); });
    for (const auto& [of, memory] : graphs_)
      if (of.lock() == capture) return *memory.lock();
    auto memory = std::make_shared<GraphMemory>(device_, graph_bytes_);
    graphs_.emplace_back(capture, memory);
    capture->keep(memory);
    return *memory;
  }

  // If a user of the block is being captured, the block stays allocated for the lifetime of the
  // graph, because an event recorded in a capture does not show when the memory is free. If
  // Device::capture() did not start the capture, the end of the graph is unknown, and the block
  // stays in use for ever.
  bool is_kept_for_graph(const Block& block) {
    std::vector<void*> users = block.other_users;
    users.push_back(block.stream);
    for (void* user : users) {
      try {
        const std::shared_ptr<Capture> capture = streams_.at(user)->captured_in();
        if (capture == nullptr) continue;
        capture->keep(
            {block.data, [pool = shared_from_this()](void* data) { pool->put_back(data); }});
      } catch (const DeviceError&) {
        continue;  // a failed stream does not use the memory again
      } catch (const InvalidArgument&) {
      }
      return true;
    }
    return false;
  }

  // Prefers the block that this stream freed last, whose memory may still be in the caches.
  // Otherwise takes any block whose users are done.
  Block* take(std::size_t size, void* stream) {
    auto& free = free_[size];
    const auto take_at = [&](auto place) {
      Block* block = *place;
      free.erase(place);
      return block;
    };
    for (auto place = free.end(); place != free.begin();)
      if ((*--place)->stream == stream && (*place)->is_free_for(stream)) return take_at(place);
    for (auto place = free.begin(); place != free.end(); ++place)
      if ((*place)->stream != stream && (*place)->is_free_for(stream)) return take_at(place);
    return nullptr;
  }

  void add_piece(std::size_t size, std::size_t asked) {
    const std::size_t count = blocks_at_once(size);
    Piece piece{ask_driver(size * count, asked), size, {}, 0};
    Piece& added = pieces_.emplace_back(std::move(piece));
    for (std::size_t i = 0; i < count; ++i) {
      Block& block = added.blocks.emplace_back();
      block.piece = &added;
      block.data = added.memory.data() + i * size;
      block.freed = device_.make_event();
    }
    // Pushed in reverse, so that the block with the lowest address is used first.
    for (std::size_t i = count; i-- > 0;) free_[size].push_front(&added.blocks[i]);
    counters_.cached_bytes += size * count;
  }

  Memory ask_driver(std::size_t bytes, std::size_t asked) {
    ++counters_.driver_allocations;
    try {
      return device_.allocate(bytes);
    } catch (const DeviceError&) {
      const std::size_t cached = counters_.cached_bytes;
      const std::size_t given_back = give_back();
      try {
        return device_.allocate(bytes);
      } catch (const DeviceError& error) {
        throw DeviceError(fmt::format(
            "no memory for {} bytes: {} bytes are in use here, {} were cached, of which {} have "
            "been returned; {}. Use a smaller batch, or free what is not needed",
            asked, counters_.in_use_bytes, cached, given_back, error.what()));
      }
    }
  }

  // Called by the deleter of a Memory, so it must not throw. A stream that has failed does not use
  // the memory again.
  void put_back(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto found = in_use_.find(static_cast<std::byte*>(data));
    Block& block = *found->second;
    if (is_kept_for_graph(block)) return;
    in_use_.erase(found);
    try {
      streams_.at(block.stream)->record(*block.freed);
      for (void* user : block.other_users) {
        block.other_events.push_back(device_.make_event());
        streams_.at(user)->record(*block.other_events.back());
      }
    } catch (const DeviceError&) {
    }
    const std::size_t size = block.piece->block_bytes;
    --block.piece->in_use;
    free_[size].push_back(&block);
    counters_.in_use_bytes -= size;
    counters_.cached_bytes += size;
  }

  // A piece is returned to the driver only if all of its blocks are free. The function first waits
  // for the users of the blocks, because work in flight may still access the memory.
  std::size_t give_back() {
    std::size_t bytes = 0;
    for (auto piece = pieces_.begin(); piece != pieces_.end();) {
      if (piece->in_use > 0) {
        ++piece;
        continue;
      }
      for (const Block& block : piece->blocks) block.await_users();
      std::erase_if(free_[piece->block_bytes],
                    [&](const Block* block) { return block->piece == &*piece; });
      bytes += piece->memory.size();
      piece = pieces_.erase(piece);
    }
    counters_.cached_bytes -= bytes;
    return bytes;
  }

  // Stores a stream object of the allocator, because the object of the caller may be temporary.
  void know(Stream& stream) {
    auto& known = streams_[stream.native()];
    if (!known) known = device_.borrow_stream(stream.native());
  }

  Device& device_;
  mutable std::mutex mutex_;
  std::list<Piece> pieces_;  // guarded by mutex_, as are the members below
  std::map<std::size_t, std::deque<Block*>> free_;
  std::unordered_map<std::byte*, Block*> in_use_;
  std::unordered_map<void*, std::unique_ptr<Stream>> streams_;
  Counters counters_;
  std::vector<std::pair<std::weak_ptr<Capture>, std::weak_ptr<GraphMemory>>> graphs_;
  const std::shared_ptr<std::atomic<std::size_t>> graph_bytes_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

CachingAllocator::CachingAllocator(Device& device) : pool_(std::make_shared<Pool>(device)) {}

CachingAllocator::~CachingAllocator() { pool_->trim(); }

Memory CachingAllocator::allocate(std::size_t bytes, Stream& stream) {
  return pool_->allocate(bytes, stream);
}

void CachingAllocator::note_use(const Memory& memory, Stream& stream) {
  pool_->note_use(memory, stream);
}

std::size_t CachingAllocator::trim() { return pool_->trim(); }

CachingAllocator::Counters CachingAllocator::counters() const { return pool_->counters(); }

}  // namespace horo::device
