#include "horo/plan/gradients/mapped_gradients.h"

#include <algorithm>
#include <functional>

#include "collectives/agreement.h"
#include "horo/base/hash.h"

namespace horo::plan {
namespace {

using Locations = std::vector<ArenaTable::Location>;

// Collective. Returns the locations of the gradients of each rank of this node. The locations are
// usually equal on all ranks. So the ranks first compare a 64-bit signature of their locations, and
// gather the locations only if the signatures differ.
std::vector<Locations> gather_places(const Locations& own, collectives::Collectives& collectives,
                                     const Topology& topology) {
  const auto bytes = std::as_bytes(std::span(own));
  const std::vector<int> node = topology.ranks_of(topology.node);
  if (collectives::all_equal(Hash().add_bytes(bytes.data(), bytes.size()).value(), collectives))
    return std::vector<Locations>(node.size(), own);
  const auto all = collectives::gather_all(bytes, collectives, topology);
  std::vector<Locations> places;
  for (int rank : node) {
    Locations& of_rank = places.emplace_back(own.size());
    std::ranges::copy(all[static_cast<std::size_t>(rank)],
                      std::as_writable_bytes(std::span(of_rank)).begin());
  }
  return places;
}

}  // namespace

void ArenaTable::add(const std::shared_ptr<collectives::NodeBlock>& block) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(blocks_, [](const auto& entry) { return entry.second.expired(); });
  blocks_.emplace(++last_number_, block);
}

// A linear search is fast enough, because a rank usually has few arenas and looks up locations only
// when it makes or updates a plan.
ArenaTable::Location ArenaTable::find(const void* data, std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [number, weak] : blocks_) {
    const auto block = weak.lock();
    if (block == nullptr) continue;
    const std::span<std::byte> own = block->own();
    const auto* begin = static_cast<const std::byte*>(data);
    // std::less_equal orders pointers into different objects. The operator <= need not do so.
    const std::less_equal<const std::byte*> not_after;
    if (not_after(own.data(), begin) && not_after(begin + bytes, own.data() + own.size()))
      return {number, static_cast<std::uint64_t>(begin - own.data())};
  }
  return {};
}

std::shared_ptr<collectives::NodeBlock> ArenaTable::block(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(number);
  return found == blocks_.end() ? nullptr : found->second.lock();
}

// Addresses may differ between processes, so the ranks exchange block numbers and offsets. Each
// rank then computes the addresses at which its own process maps the gradients of the ranks of its
// node.
MappedGradients find_mapped_gradients(std::span<const NamedTensor> gradients,
                                      const ArenaTable& arenas,
                                      collectives::Collectives& collectives,
                                      const Topology& topology) {
  Locations own;
  for (const NamedTensor& gradient : gradients)
    own.push_back(arenas.find(gradient.tensor.data(), gradient.tensor.bytes()));
  const std::vector<Locations> places = gather_places(own, collectives, topology);

  MappedGradients mapped;
  mapped.addresses.resize(gradients.size());
  std::vector<std::uint8_t> is_mapped(gradients.size(), 0);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (std::size_t r = 0; r < places.size(); ++r) {
      if (gradients[i].tensor.count() == 0) {
        mapped.addresses[i].push_back(nullptr);
        continue;
      }
      auto block = arenas.block(places[r][i].block);
      if (block == nullptr) break;
      mapped.addresses[i].push_back(block->at(static_cast<int>(r), places[r][i].offset));
      if (std::ranges::find(mapped.blocks, block) == mapped.blocks.end())
        mapped.blocks.push_back(std::move(block));
    }
    is_mapped[i] = mapped.addresses[i].size() == places.size();
  }
  // is_mapped may differ between ranks, for example because a rank has freed a block that another
  // rank still uses. All ranks must have the same set of mapped gradients, because the set
  // determines how a bucket is exchanged.
  collectives.allreduce({DataType::kUInt8, is_mapped.data(), is_mapped.size()}, ReduceOp::kMin);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (is_mapped[i] == 0) mapped.addresses[i].clear();
  return mapped;
}

}  // namespace horo::plan
