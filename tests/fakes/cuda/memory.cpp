#include "tests/fakes/cuda/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

constexpr std::size_t kArena = std::size_t{1} << 42;
constexpr std::size_t kPage = 4096, kAlignment = 256;
constexpr int kBorder = 0xcb;  // the bytes of a page beside the block

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device memory";
    case MemoryKind::kNccl:
      return "memory of ncclMemAlloc";
    case MemoryKind::kPinned:
      break;
  }
  return "pinned memory";
}

void close_pages(std::byte* pages, std::size_t bytes) {
  mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

std::size_t new_lane() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

Memory& Memory::of_process() {
  static auto* memory = new Memory;  // threads of streams may outlive exit()
  return *memory;
}

Memory::Memory() {
  void* const arena =
      mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) throw std::bad_alloc();
  begin_ = next_ = static_cast<std::byte*>(arena);
  end_ = begin_ + kArena;
}

// The end of the block is at the end of its pages, except for alignment.
void* Memory::allocate(std::size_t bytes, MemoryKind kind, const char* call) {
  const std::scoped_lock lock(mutex_);
  if (bytes > kCapacity - used_) return nullptr;
  const std::size_t aligned = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  const std::size_t page_bytes = round_up(aligned, kPage);
  std::byte* const pages = next_ + kPage;
  if (mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
  next_ = pages + page_bytes;
  std::byte* const data = next_ - aligned;
  std::memset(pages, kBorder, page_bytes);
  std::memset(data, 0xff, bytes);
  used_ += bytes;
  blocks_[pages] = {data, bytes, kind, pages, page_bytes, call, "", 0, {}};
  return data;
}

void Memory::free(void* data, MemoryKind kind, const char* call) {
  const std::scoped_lock lock(mutex_);
  Block* const block = contains(data) ? find(data) : nullptr;
  if (block == nullptr || block->data != data)
    violation(call, fmt::format("{}", data), "the address is not the start of a block");
  const std::string place = describe_locked(data);
  if (!block->freed_by.empty()) violation(call, place, "the block is freed twice");
  if (block->kind != kind)
    violation(call, place, std::string("the call frees ") + name_of(kind) + " only");
  if (block->registrations > 0)
    violation(call, place, "the block is still registered with a communicator");
  check_borders(*block, call);
  block->freed_by = call;
  block->segments.clear();
  used_ -= block->bytes;
  close_pages(block->pages, block->page_bytes);
}

void Memory::check_borders(const Block& block, const char* call) const {
  const auto is_intact = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte b) { return b == std::byte{kBorder}; });
  };
  if (!is_intact(block.pages, block.data))
    violation(call, fmt::format("{}", static_cast<const void*>(block.data)),
              "bytes before the block were overwritten");
  if (!is_intact(block.data + block.bytes, block.pages + block.page_bytes))
    violation(call, fmt::format("{}", static_cast<const void*>(block.data)),
              "bytes after the block were overwritten");
}

const MemoryKind* Memory::kind_of(const void* address) {
  if (!contains(address)) return nullptr;
  const std::scoped_lock lock(mutex_);
  const Block* const block = find(address);
  const auto* const byte = static_cast<const std::byte*>(address);
  const bool is_inside = block != nullptr && block->freed_by.empty() && byte >= block->data &&
                         byte < block->data + block->bytes;
  return is_inside ? &block->kind : nullptr;
}

std::size_t Memory::free_bytes() {
  const std::scoped_lock lock(mutex_);
  return kCapacity - used_;
}

bool Memory::are_in_one_block(const void* first, const void* second) {
  if (!contains(first) || !contains(second)) return false;
  const std::scoped_lock lock(mutex_);
  return find(first) == find(second);
}

void Memory::require_live(const Actor& actor, const void* data, std::size_t bytes) {
  if (bytes == 0 || !contains(data)) return;
  const std::scoped_lock lock(mutex_);
  check(actor, data, bytes);
}

void Memory::check(const Actor& actor, const void* data, std::size_t bytes) {
  const Block* const block = find(data);
  const auto* const byte = static_cast<const std::byte*>(data);
  const std::string what = fmt::format("{} bytes at {}", bytes, data);
  if (block == nullptr) violation(actor.call, actor.place, what + " are not in a block of memory");
  if (!block->freed_by.empty())
    violation(actor.call, actor.place,
              what + " are used after they were freed: " + describe_locked(data));
  if (byte < block->data || byte + bytes > block->data + block->bytes)
    violation(actor.call, actor.place, what + " are outside of " + describe_locked(data));
}

void Memory::note(const Actor& actor, const Moment& moment, const Range& range) {
  if (range.bytes == 0 || !contains(range.data)) return;
  const std::scoped_lock lock(mutex_);
  check(actor, range.data, range.bytes);
  Block& block = *find(range.data);
  const auto begin =
      static_cast<std::size_t>(static_cast<const std::byte*>(range.data) - block.data);
  const std::size_t end = begin + range.bytes;
  split(block, begin);
  split(block, end);
  const Stamp stamp{moment.lane, moment.tick, std::make_shared<const Actor>(actor)};
  for (std::size_t at = begin; at < end;) {
    auto found = block.segments.lower_bound(at);
    if (found == block.segments.end() || found->first > at) {
      const std::size_t until = found == block.segments.end() ? end : std::min(end, found->first);
      found = block.segments.emplace_hint(found, at, Segment{until, {}, {}});
    }
    Segment& segment = found->second;
    for (const Stamp& writer : segment.writers)
      require_order(actor, moment, writer, range.is_written ? "writes after" : "reads after", block,
                    at);
    if (range.is_written) {
      for (const Stamp& reader : segment.readers)
        require_order(actor, moment, reader, "writes after", block, at);
      segment.writers = {stamp};
      segment.readers.clear();
    } else {
      std::erase_if(segment.readers, [&](const Stamp& s) { return s.lane == stamp.lane; });
      segment.readers.push_back(stamp);
    }
    at = segment.end;
  }
  // Joins the segments that one write has made equal.
  if (range.is_written) {
    auto first = block.segments.find(begin);
    first->second.end = end;
    block.segments.erase(std::next(first), block.segments.lower_bound(end));
  }
}

void Memory::require_order(const Actor& actor, const Moment& moment, const Stamp& earlier,
                           const char* conflict, const Block& block, std::size_t at) {
  if (moment.clock.contains(earlier.lane, earlier.tick)) return;
  violation(
      actor.call, actor.place,
      fmt::format("it {} {} on {} without an order between them, at byte {} of a block of {} bytes",
                  conflict, earlier.actor->call, earlier.actor->place, at, block.bytes));
}

void Memory::split(Block& block, std::size_t at) {
  auto found = block.segments.upper_bound(at);
  if (found == block.segments.begin()) return;
  --found;
  if (found->first == at || found->second.end <= at) return;
  Segment tail = found->second;
  found->second.end = at;
  block.segments.emplace(at, std::move(tail));
}

void Memory::add_registration(const Actor& actor, const void* data, int change) {
  const std::scoped_lock lock(mutex_);
  if (contains(data)) {
    check(actor, data, 1);
    find(data)->registrations += change;
  }
}

Memory::Block* Memory::find(const void* address) {
  const auto after = blocks_.upper_bound(static_cast<const std::byte*>(address));
  if (after == blocks_.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return static_cast<const std::byte*>(address) <= block.pages + block.page_bytes ? &block
                                                                                  : nullptr;
}

std::string Memory::describe(const void* address) {
  const std::scoped_lock lock(mutex_);
  return describe_locked(address);
}

std::string Memory::describe_locked(const void* address) {
  const Block* const block = find(address);
  if (block == nullptr) return "memory that is not in a block";
  return fmt::format("a block of {} bytes of {} at {}{}", block->bytes, name_of(block->kind),
                     static_cast<const void*>(block->data),
                     block->freed_by.empty() ? "" : ", freed by " + block->freed_by);
}

}  // namespace horo::fakes
