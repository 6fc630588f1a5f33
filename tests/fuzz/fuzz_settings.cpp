// Settings of arbitrary text are parsed, or rejected with an InvalidArgument that names the
// variable. Sizes and durations survive formatting and parsing. The input holds one "NAME=VALUE"
// per line.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_quantities(const std::string& text) {
  try {
    const std::size_t bytes = horo::parse_bytes(text);
    // Sizes are parsed as doubles, which are exact up to 2^53.
    if (bytes <= std::size_t{1} << 53)
      require(horo::parse_bytes(horo::format_bytes(bytes)) == bytes);
  } catch (const horo::InvalidArgument&) {
  }
  try {
    const auto duration = horo::parse_duration(text);
    const auto again = horo::parse_duration(horo::format_duration(duration));
    // The text has two decimals.
    const auto count = static_cast<double>(duration.count());
    require(std::abs(static_cast<double>(again.count()) - count) <= 0.01 * std::abs(count));
  } catch (const horo::InvalidArgument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> entries(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == '\n')
      entries.emplace_back();
    else
      entries.back() += static_cast<char>(data[i]);
  }
  try {
    const horo::ParsedEnvironment parsed = horo::parse_environment(entries);
    require(parsed.value_of.size() == horo::settings_table().size());
    require(parsed.warnings.size() <= entries.size());
  } catch (const horo::InvalidArgument& error) {
    require(std::string(error.what()).starts_with("HORO_"));
  }
  for (const std::string& entry : entries)
    check_quantities(entry.substr(std::min(entry.size(), entry.find('=') + 1)));
  return 0;
}
