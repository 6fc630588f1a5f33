#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "horo/base/system/file_descriptor.h"

namespace horo::metrics {

/// The files of a rank in the directory HORO_METRICS. append() appends lines to "rank.3.jsonl",
/// after the lines of earlier jobs. replace_page() replaces "rank.3.prom". Used by one thread.
class MetricsFiles {
 public:
  /// Creates the directory and the files. Truncates an incomplete last line of an earlier process.
  /// On failure, throws Error with the path and the reason in one line.
  MetricsFiles(const std::filesystem::path& directory, int rank);

  /// Appends complete lines. If a write fails, removes the part that was written and returns false.
  bool append(std::string_view lines);
  /// Replaces the page atomically: a reader sees either the old page or the new one. On failure,
  /// keeps the old page and returns false.
  bool replace_page(std::string_view page);

 private:
  std::filesystem::path lines_path_, page_path_;
  FileDescriptor lines_;
};

}  // namespace horo::metrics
