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

/// Returns the least multiple of `unit` that is not below `value`. `unit` must not be 0.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Returns the size in the largest unit that represents it exactly with at most two decimals,
/// otherwise in bytes, such as "64 MiB", "1.5 KiB" or "17 B".
std::string format_bytes(std::size_t bytes);
/// Returns a text such as "1 rank" or "2 ranks". The plural of `noun` must be `noun` with an "s".
std::string format_count(std::size_t count, std::string_view noun);
/// Returns a text such as "500 us", "1.5 s" or "5 min". It has at most three significant digits, or
/// all digits from 1000 h on. Uses minutes from 120 s and hours from 120 min. A negative duration
/// counts as 0.
std::string format_duration(std::chrono::nanoseconds duration);
/// The same for a number of nanoseconds.
std::string format_nanoseconds(std::int64_t nanoseconds);

}  // namespace horo
