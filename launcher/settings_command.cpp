#include "launcher/settings_command.h"

#include <fmt/format.h>

#include "horo/base/environment.h"
#include "horo/base/error.h"

namespace horo {

int settings_command(std::span<const std::string> words) {
  if (words.size() == 1 && words[0] == "--markdown") {
    fmt::print("{}", environment_markdown());
    return 0;
  }
  if (!words.empty())
    throw InvalidArgument(fmt::format("settings takes --markdown or nothing, not '{}'", words[0]));
  const ParsedEnvironment parsed = parse_environment(process_environment());
  for (std::size_t i = 0; i < settings_table().size(); ++i) {
    const SettingInfo& info = settings_table()[i];
    const bool is_default = parsed.value_of[i] == info.default_value;
    fmt::print("{}={}{}\n    {} (accepts {})\n", info.name, parsed.value_of[i],
               is_default ? "" : fmt::format("   default: {}", info.default_value), info.meaning,
               info.accepts);
  }
  for (const std::string& warning : parsed.warnings) fmt::print(stderr, "hororun: {}\n", warning);
  return 0;
}

}  // namespace horo
