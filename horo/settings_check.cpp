#include "horo/settings_check.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/coordinator/plan_agreement.h"

namespace horo {
namespace {

// One line per compared setting, in the table's order.
std::string lines_of(const ParsedEnvironment& environment) {
  std::string lines;
  for (std::size_t i = 0; i < environment.value_of.size(); ++i)
    if (settings_table()[i].same_on_all_ranks)
      lines += fmt::format("{}={}\n", settings_table()[i].name, environment.value_of[i]);
  return lines;
}

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

void check_settings_agree(const ParsedEnvironment& environment,
                          collectives::Collectives& collectives, const Topology& topology) {
  const std::string own = lines_of(environment);
  if (coordinator::all_equal(Hash().add(own).value(), collectives)) return;

  const auto all = coordinator::gather_all(std::as_bytes(std::span(own)), collectives, topology);
  const auto text_of = [&](int rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (int rank = 1; rank < topology.size; ++rank) {
    std::string_view first = text_of(0);
    std::string_view other = text_of(rank);
    while (!first.empty() || !other.empty()) {
      const std::string_view a = next_line(first);
      const std::string_view b = next_line(other);
      if (a != b)
        throw MismatchError(fmt::format(
            "the settings of the ranks differ: {} on {}, {} on {}; pass the same value to "
            "every rank (hororun --env does)",
            a, topology.describe(0), b, topology.describe(rank)));
    }
  }
  throw MismatchError("the settings of the ranks differ");
}

}  // namespace horo
