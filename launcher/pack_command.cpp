#include <fmt/format.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/text/printable.h"
#include "horo/base/text/quantity.h"
#include "launcher/commands.h"
#include "ops/data/records/pack_folder.h"

namespace horo {
namespace {

constexpr std::string_view kHelp =
    "Packs many small files into few large ones, with an index and a checksum for each file.\n\n"
    "  hororun pack SOURCE TARGET  SOURCE: a folder with a sub-folder for each class. TARGET: a\n"
    "                              new directory; training programs read it in place of SOURCE\n"
    "  --file-bytes SIZE           largest size of a packed file; default: 1 GiB\n"
    "  hororun pack --check DIR    read all records of a packed directory and name the damaged "
    "ones\n";

struct PackOptions {
  std::vector<std::string> paths;
  std::uint64_t file_bytes = std::uint64_t{1} << 30;
  bool check = false;
  bool help = false;
};

PackOptions parse_pack_options(std::span<const std::string> words) {
  PackOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") {
      options.help = true;
    } else if (words[i] == "--check") {
      options.check = true;
    } else if (words[i] == "--file-bytes") {
      if (i + 1 == words.size()) throw InvalidArgument("--file-bytes needs a size, such as 256MiB");
      options.file_bytes = parse_bytes(words[++i]);
    } else if (words[i].starts_with('-')) {
      throw InvalidArgument(
          fmt::format("unknown option {}; hororun pack --help lists them", words[i]));
    } else {
      options.paths.push_back(words[i]);
    }
  }
  const std::size_t expected = options.check ? 1 : 2;
  if (!options.help && options.paths.size() != expected)
    throw InvalidArgument(
        fmt::format("pack takes {}, not {}; hororun pack --help explains them",
                    options.check ? "one directory with --check" : "a source and a target",
                    format_count(options.paths.size(), "path")));
  return options;
}

int check(const std::string& directory) {
  const ops::PackReport report = ops::check_records(directory);
  fmt::print("{}: {} of {} damaged\n", printable(directory), report.damaged,
             format_count(report.records, "record"));
  return report.damaged > 0 ? 1 : 0;
}

}  // namespace

int pack_command(std::span<const std::string> words) {
  const PackOptions options = parse_pack_options(words);
  if (options.help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (options.check) return check(options.paths[0]);
  const auto start = std::chrono::steady_clock::now();
  const ops::PackReport report =
      ops::pack_folder(options.paths[0], options.paths[1], options.file_bytes);
  fmt::print("{}: packed {} of {} class{} ({}) in {}\n", printable(options.paths[1]),
             format_count(report.records, "file"), report.classes, report.classes == 1 ? "" : "es",
             format_bytes(report.bytes), format_duration(std::chrono::steady_clock::now() - start));
  return 0;
}

}  // namespace horo
