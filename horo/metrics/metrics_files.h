#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "horo/base/file_descriptor.h"

namespace horo::metrics {

/// The files of a rank in the directory that HORO_METRICS names: "rank.3.jsonl", to which lines are
/// added, also to those of earlier jobs, and "rank.3.prom", which is replaced. Used by one thread.
class MetricsFiles {
 public:
  /// Makes the directory and the files. What an earlier process has left of a line is cut off.
  /// Throws Error, of one line that names the file, if that is not possible.
  MetricsFiles(const std::filesystem::path& directory, int rank);

  /// Adds whole lines, all or none. False: they could not be written.
  bool append(std::string_view lines);
  /// Replaces the page, so that a reader sees the former one or this one. False: it stays.
  bool replace_page(std::string_view page);

 private:
  std::filesystem::path lines_path_, page_path_;
  FileDescriptor lines_;
};

}  // namespace horo::metrics
