#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "horo/base/system/file_descriptor.h"

namespace horo::metrics {

/// The files of a rank in the directory HORO_METRICS: "rank.3.jsonl", to which lines are appended,
/// also after those of earlier jobs, and "rank.3.prom", which is replaced. Used by one thread.
class MetricsFiles {
 public:
  /// Creates the directory and the files. Truncates an incomplete last line of an earlier process.
  /// Throws Error with the path and the reason, in one line, on failure.
  MetricsFiles(const std::filesystem::path& directory, int rank);

  /// Appends complete lines: all of them, or none if it returns false.
  bool append(std::string_view lines);
  /// Replaces the page atomically: a reader sees either the old page or the new one. Returns false
  /// and keeps the old page on failure.
  bool replace_page(std::string_view page);

 private:
  std::filesystem::path lines_path_, page_path_;
  FileDescriptor lines_;
};

}  // namespace horo::metrics
