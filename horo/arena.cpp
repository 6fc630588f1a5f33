#include "horo/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/shared_region.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "horo/context.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;

}  // namespace

// A bump allocator over this rank's part of a node block. Plans that reduce gradients in place in
// the block share its ownership, so the memory stays mapped until the arena and all these plans are
// destroyed.
class Arena::Impl : public std::pmr::memory_resource {
 public:
  explicit Impl(std::shared_ptr<collectives::NodeBlock> block) : block_(std::move(block)) {}
  std::span<std::byte> bytes() const { return block_->own(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    HORO_CHECK(alignment <= kPage, "an arena aligns to at most 4 KiB");
    const std::size_t begin = round_up(used_, std::max(alignment, kLine));
    const std::size_t all = block_->own().size();
    HORO_CHECK(begin <= all && bytes <= all - begin,
               fmt::format("the arena of {} is full: {} are in use, {} more were requested",
                           format_bytes(all), format_bytes(used_), format_bytes(bytes)));
    used_ = begin + bytes;
    return block_->own().data() + begin;
  }
  // Does not reuse memory, because the tensors in an arena usually exist as long as the arena.
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::shared_ptr<collectives::NodeBlock> block_;
  std::size_t used_ = 0;
};

Arena::Arena(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;
Arena::~Arena() = default;

std::span<std::byte> Arena::bytes() const { return impl_->bytes(); }
std::pmr::memory_resource* Arena::resource() const { return impl_.get(); }

// The task may refer to this stack frame, because run_task() waits for the task. The task runs at
// the same position in the sequence of collectives on every rank. Therefore all ranks add their
// blocks to ArenaTable in the same order, and a block has the same number on all ranks.
//
// An error that leaves a task ends the job, unless it is InvalidArgument or MismatchError. The task
// therefore catches SharedMemoryError, and this function throws it after the task.
Arena Context::allocate(std::size_t bytes) {
  // With this limit, the sums and products below cannot overflow.
  constexpr std::size_t kMost = std::size_t{1} << 47;
  HORO_CHECK(bytes > 0 && bytes <= kMost, fmt::format("an arena of {} bytes: give between 1 and {}",
                                                      bytes, format_bytes(kMost)));
  coordinator::forbid_blocking_in_callbacks();  // before a name is taken
  std::shared_ptr<collectives::NodeBlock> block;
  std::string error;
  std::size_t bytes_per_rank = 0;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = runtime_->automatic_name("arena");
  entry.task = [&](collectives::Collectives& collectives) {
    const Topology& topology = runtime_->topology();
    auto most = static_cast<std::int64_t>(bytes);
    collectives.allreduce({DataType::kInt64, &most, 1}, ReduceOp::kMax);
    bytes_per_rank = round_up(static_cast<std::size_t>(most), kPage);
    try {
      block = std::make_shared<collectives::NodeBlock>(
          runtime_->transport().make_node_region(bytes_per_rank *
                                                 static_cast<std::size_t>(topology.local_size)),
          topology.local_rank, bytes_per_rank);
    } catch (const SharedMemoryError& caught) {
      error = caught.what();
    }
    // Every rank takes part in this allreduce, whether or not its own allocation has succeeded.
    std::uint8_t is_allocated = error.empty();
    collectives.allreduce({DataType::kUInt8, &is_allocated, 1}, ReduceOp::kMin);
    if (is_allocated == 0 && error.empty()) error = "a node does not have enough shared memory";
    if (error.empty()) runtime_->arenas().add(block);
  };
  runtime_->run_task(std::move(entry));
  if (!error.empty())
    throw SharedMemoryError(
        fmt::format("no arena of {} per rank: {}", format_bytes(bytes_per_rank), error));
  return Arena(std::make_unique<Arena::Impl>(std::move(block)));
}

}  // namespace horo
