#pragma once

#include <filesystem>
#include <string>

#include "ops/train/bottleneck/diagnosis.h"

namespace horo::ops {

/// The report as one HTML page without references to other files: recommendations, a bar of the
/// phases of each rank, the model for more ranks, and a table. Of jobs with more than 64 ranks, the
/// pictures show 64 of them. Pure.
std::string report_html(const JobBottlenecks& bottlenecks);

/// Writes report_html() to `path`, replacing it. Throws Error that names the file if it cannot.
void write_html(const JobBottlenecks& bottlenecks, const std::filesystem::path& path);

}  // namespace horo::ops
