#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace horo {

/// Reads a size such as "64MiB", "4 KiB", "1MB" (10^6), "512" (bytes). Throws InvalidArgument that
/// quotes the text and shows the accepted form.
std::size_t parse_bytes(std::string_view text);
/// Reads a duration such as "500us", "20 ms", "1.5s", "5min". A unit is required, except for 0.
/// Throws InvalidArgument.
std::chrono::nanoseconds parse_duration(std::string_view text);

/// "64MiB", "1.5KiB", "17B": the largest unit in which at most two decimals are needed exactly,
/// else bytes.
std::string format_bytes(std::size_t bytes);
/// "500us", "1.5s": up to two decimals.
std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace horo
