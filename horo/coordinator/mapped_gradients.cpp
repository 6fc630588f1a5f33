#include "horo/coordinator/mapped_gradients.h"

#include <algorithm>

#include "horo/base/hash.h"
#include "horo/coordinator/plan_agreement.h"

namespace horo::coordinator {
namespace {

using Places = std::vector<ArenaTable::Place>;

// The places of each rank of this node. Usually they are the same everywhere, and only a signature
// travels.
std::vector<Places> gather_places(const Places& own, collectives::Collectives& collectives,
                                  const Topology& topology) {
  const auto bytes = std::as_bytes(std::span(own));
  const std::vector<int> node = topology.ranks_of(topology.node);
  if (all_equal(Hash().add_bytes(bytes.data(), bytes.size()).value(), collectives))
    return std::vector<Places>(node.size(), own);
  const auto all = gather_all(bytes, collectives, topology);
  std::vector<Places> places;
  for (int rank : node) {
    Places& of_rank = places.emplace_back(own.size());
    std::ranges::copy(all[static_cast<std::size_t>(rank)],
                      std::as_writable_bytes(std::span(of_rank)).begin());
  }
  return places;
}

}  // namespace

MappedGradients find_mapped_gradients(std::span<const NamedTensor> gradients,
                                      const ArenaTable& arenas,
                                      collectives::Collectives& collectives,
                                      const Topology& topology) {
  Places own;
  for (const NamedTensor& gradient : gradients)
    own.push_back(arenas.find(gradient.tensor.data(), gradient.tensor.bytes()));
  const std::vector<Places> places = gather_places(own, collectives, topology);

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
  // A rank may have freed what another one still uses: mapped is what all ranks can reach.
  collectives.allreduce({DataType::kUInt8, is_mapped.data(), is_mapped.size()}, ReduceOp::kMin);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (is_mapped[i] == 0) mapped.addresses[i].clear();
  return mapped;
}

}  // namespace horo::coordinator
