#include "horo/device/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/device/graph_memory.h"

namespace horo::device {
namespace {

// The end of work of a stream. Null: the work is complete.
using End = std::shared_ptr<const Event>;

// Failed work counts as complete: the stream executes nothing after it.
bool is_over(const End& end) {
  try {
    return end == nullptr || end->is_done();
  } catch (const DeviceError&) {
    return true;
  }
}

void await(const End& end) {
  try {
    if (end != nullptr) end->synchronize();
  } catch (const DeviceError&) {
  }
}

struct Piece;

struct Block {
  Piece* piece;
  std::byte* data;
  // The stream that allocated the block last. That stream may reuse the block without a wait,
  // because the work of a stream runs in order. Empty before the first use and after forget().
  std::optional<void*> stream = {};
  // For a free block: the end of the work of `stream`. Empty until another stream or the driver
  // needs the block.
  std::optional<End> end = {};
  std::vector<void*> other_users = {};
  std::vector<End> other_ends = {};  // of work for which every user must wait

  bool needs_end() const { return stream && !end; }
  bool is_free_for(void* user) const {
    return std::ranges::all_of(other_ends, is_over) &&
           (!stream || stream == user || (end && is_over(*end)));
  }
  void await_users() const {
    if (end) await(*end);
    for (const End& other : other_ends) await(other);
  }
  // `last` is the end of all work of `gone`, a stream that has no later work.
  void forget(void* gone, const End& last) {
    const bool was_owner = stream == gone;
    if (was_owner) stream.reset();
    if (std::erase(other_users, gone) > 0 || was_owner) other_ends.push_back(last);
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
    block->end.reset();
    block->other_users.clear();
    block->other_ends.clear();
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
    if (block.stream == user || std::ranges::count(block.other_users, user) > 0) return;
    know(stream);
    block.other_users.push_back(user);
  }

  void forget(Stream& stream) {
    const std::scoped_lock lock(mutex_);
    void* gone = stream.native();
    if (!streams_.contains(gone)) return;
    const std::optional<End> last = end_of(gone);
    HORO_CHECK(last.has_value(), "forget: the stream is being captured; end the capture first");
    for (Piece& piece : pieces_)
      for (Block& block : piece.blocks) block.forget(gone, *last);
    streams_.erase(gone);
  }

  std::size_t trim() {
    const std::scoped_lock lock(mutex_);
    return give_back();
  }

  // Called when no stream can request memory any more.
  void close() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    give_back();
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
    if (block.stream) users.push_back(*block.stream);
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

  // The end of the work that the stream has so far. Empty if the stream is being captured, because
  // an event recorded in a capture does not show when the earlier work is complete. A stream that
  // has failed does not use memory again.
  std::optional<End> end_of(void* native) {
    Stream& stream = *streams_.at(native);
    try {
      if (stream.captured_in() != nullptr) return std::nullopt;
      if (stream.is_idle()) return End();
      const std::shared_ptr<Event> end = device_.make_event();
      stream.record(*end);
      return end;
    } catch (const InvalidArgument&) {
      return std::nullopt;
    } catch (const DeviceError&) {
      return End();
    }
  }

  // Sets Block::end of `blocks`, except those of stream `user`. Records at most one event for each
  // stream.
  void set_ends(const std::deque<Block*>& blocks, std::optional<void*> user) {
    std::unordered_map<void*, std::optional<End>> ends;
    for (Block* block : blocks) {
      if (!block->needs_end() || block->stream == user) continue;
      const auto [end, is_new] = ends.try_emplace(*block->stream);
      if (is_new) end->second = end_of(*block->stream);
      block->end = end->second;
    }
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
    const auto find_other = [&] {
      return std::ranges::find_if(free, [&](const Block* block) {
        return block->stream != stream && block->is_free_for(stream);
      });
    };
    auto other = find_other();
    if (other == free.end()) {
      set_ends(free, stream);
      other = find_other();
    }
    return other == free.end() ? nullptr : take_at(other);
  }

  void add_piece(std::size_t size, std::size_t asked) {
    const std::size_t count = blocks_at_once(size);
    Piece piece{ask_driver(size * count, asked), size, {}, 0};
    Piece& added = pieces_.emplace_back(std::move(piece));
    for (std::size_t i = 0; i < count; ++i)
      added.blocks.push_back({&added, added.memory.data() + i * size});
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

  // Called by the deleter of a Memory, so it must not throw. Records no event on the stream of the
  // block, because usually the same stream uses the block next. After close(), the streams may be
  // destroyed when the memory is free.
  void put_back(void* data) {
    const std::scoped_lock lock(mutex_);
    const auto found = in_use_.find(static_cast<std::byte*>(data));
    Block& block = *found->second;
    if (is_kept_for_graph(block)) return;
    in_use_.erase(found);
    for (void* user : block.other_users)
      if (auto end = end_of(user)) block.other_ends.push_back(std::move(*end));
    if (is_closed_ && block.stream) block.end = end_of(*block.stream);
    const std::size_t size = block.piece->block_bytes;
    --block.piece->in_use;
    free_[size].push_back(&block);
    counters_.in_use_bytes -= size;
    counters_.cached_bytes += size;
  }

  // A piece is returned to the driver only if all of its blocks are free. The function first waits
  // for the users of the blocks, because work in flight may still access the memory. It cannot wait
  // for a stream that is being captured.
  std::size_t give_back() {
    for (const auto& [size, blocks] : free_) set_ends(blocks, {});
    std::size_t bytes = 0;
    for (auto piece = pieces_.begin(); piece != pieces_.end();) {
      if (piece->in_use > 0 || std::ranges::any_of(piece->blocks, &Block::needs_end)) {
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
  bool is_closed_ = false;
  std::vector<std::pair<std::weak_ptr<Capture>, std::weak_ptr<GraphMemory>>> graphs_;
  const std::shared_ptr<std::atomic<std::size_t>> graph_bytes_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

CachingAllocator::CachingAllocator(Device& device) : pool_(std::make_shared<Pool>(device)) {}

CachingAllocator::~CachingAllocator() { pool_->close(); }

Memory CachingAllocator::allocate(std::size_t bytes, Stream& stream) {
  return pool_->allocate(bytes, stream);
}

void CachingAllocator::note_use(const Memory& memory, Stream& stream) {
  pool_->note_use(memory, stream);
}

void CachingAllocator::forget(Stream& stream) { pool_->forget(stream); }

std::size_t CachingAllocator::trim() { return pool_->trim(); }

CachingAllocator::Counters CachingAllocator::counters() const { return pool_->counters(); }

}  // namespace horo::device
