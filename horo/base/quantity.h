#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace horo {

/// Parses a size such as "64MiB", "4 KiB", "1MB" (10^6 bytes) or "512" (bytes). Throws
/// InvalidArgument with the text and the accepted form.
std::size_t parse_bytes(std::string_view text);
/// Parses a duration such as "500us", "20 ms", "1.5s" or "5min". A unit is required, except for 0.
/// Throws InvalidArgument with the text and the accepted form.
std::chrono::nanoseconds parse_duration(std::string_view text);

/// "64 MiB", "1.5 KiB", "17 B": the size in the largest unit that represents it exactly with at
/// most two decimals, otherwise in bytes.
std::string format_bytes(std::size_t bytes);
/// "1 rank", "2 ranks". The plural of `noun` must end with "s".
std::string format_count(std::size_t count, std::string_view noun);
/// "500 us", "1.5 s", "5 min": three significant digits. Uses minutes from 120 s and hours from 120
/// min. A negative duration counts as 0.
std::string format_duration(std::chrono::nanoseconds duration);
/// The same for a difference of times in nanoseconds.
std::string format_nanoseconds(std::int64_t nanoseconds);

}  // namespace horo
