#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace horo {

/// How messages and the flight recorder name a process set, by its ranks in the job, ascending:
/// "{0, 2}", or in runs where that would be long: "{0-63, 70-90:2}" (70, 72, ... 90). Of several
/// sets with the same ranks the second is "{0, 2}#2". At most 64 bytes: ranks without order, whose
/// runs do not fit, are only counted, "{61 ranks, 6f1c0a95}".
std::string name_of_set(const std::vector<int>& ranks, int number = 1);

/// The ranks that the name of a process set lists; nullopt if it lists none.
std::optional<std::vector<int>> members_of(std::string_view process_set);

}  // namespace horo
