#include "horo/link_figures.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "collectives/selection/link_file.h"
#include "collectives/selection/link_probe.h"
#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/from_rank_0.h"

namespace horo {
namespace {

using collectives::AllreduceSelection;
using collectives::JobShape;
using collectives::LinkCost;

LinkCost slowest(LinkCost own, collectives::Collectives& collectives) {
  double figures[] = {own.alpha, own.beta, own.gamma};
  collectives.allreduce({DataType::kFloat64, figures, 3}, ReduceOp::kMax);
  return {figures[0], figures[1], figures[2]};
}

void report(const LinkCost& link, std::string_view source) {
  log_info(
      "between nodes a message costs {:.1f} us and {:.2f} ns per byte, combining {:.2f} ns "
      "per byte ({})",
      link.alpha * 1e6, link.beta * 1e9, link.gamma * 1e9, source);
}

}  // namespace

AllreduceSelection agree_on_allreduce(const Settings& settings, collectives::PointToPoint& peers,
                                      collectives::Collectives& collectives,
                                      const Topology& topology) {
  AllreduceSelection selection;
  selection.setting = settings.allreduce;
  if (topology.node_count == 1 || settings.allreduce != MessageAllreduce::kAuto) return selection;
  const std::string& path = settings.link_file;
  const LineFile file("HORO_LINK_FILE", path);
  const JobShape shape{topology.node_count, topology.size};
  std::string known;
  if (!path.empty())
    known = from_rank_0(
        [&] {
          const auto found = collectives::find_link(file.read().value_or(""), shape, path);
          return found ? collectives::link_line(shape, *found) : std::string();
        },
        collectives, topology);
  if (!known.empty()) {
    selection.link = *collectives::find_link(known, shape, path);
    if (topology.rank == 0) report(selection.link, path);
  } else {
    const auto start = std::chrono::steady_clock::now();
    selection.link = slowest(collectives::measure_link(peers, topology), collectives);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    if (topology.rank == 0)
      report(selection.link, fmt::format("measured in {:.0f} ms", taken.count()));
    if (!path.empty())
      from_rank_0(
          [&] {
            collectives::add_to_link_file(file, shape, selection.link);
            return std::string();
          },
          collectives, topology);
  }
  if (!path.empty()) selection.ring_boundary = selection.link;
  return selection;
}

}  // namespace horo
