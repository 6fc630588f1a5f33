#include "horo/from_rank_0.h"

#include <cstddef>
#include <span>

#include "horo/base/error.h"
#include "horo/coordinator/plan_agreement.h"

namespace horo {

std::string from_rank_0(const std::function<std::string()>& work,
                        collectives::Collectives& collectives, const Topology& topology) {
  std::string said;
  if (topology.rank == 0) {
    try {
      said = ' ';
      said += work();
    } catch (const InvalidArgument& error) {
      said = std::string("!") + error.what();
    }
  }
  const auto all = coordinator::gather_all(std::as_bytes(std::span(said)), collectives, topology);
  const std::string heard(reinterpret_cast<const char*>(all[0].data()), all[0].size());
  if (heard.starts_with('!')) throw InvalidArgument(heard.substr(1));
  return heard.substr(1);
}

}  // namespace horo
