#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "horo/base/system/file_descriptor.h"

namespace horo::metrics {

/// The two files of a rank in the directory HORO_METRICS, for rank 3 "rank.3.jsonl" and
/// "rank.3.prom". append() adds lines to the first file, after the lines of earlier jobs.
/// replace_page() replaces the second file. Used by one thread at a time.
class MetricsFiles {
 public:
  /// Creates the directory and the files if they do not exist. Removes an incomplete last line of
  /// an earlier process, and empties the page. On failure, throws Error with the path and the
  /// reason.
  MetricsFiles(const std::filesystem::path& directory, int rank);

  /// Appends `lines`, which must be complete lines. If a write fails, tries to truncate the file to
  /// its previous length, and returns false.
  bool append(std::string_view lines);
  /// Replaces the page atomically: a reader sees either the old page or the new one. On failure,
  /// keeps the old page and returns false.
  bool replace_page(std::string_view page);

 private:
  std::filesystem::path lines_path_, page_path_;
  FileDescriptor lines_;
};

}  // namespace horo::metrics
