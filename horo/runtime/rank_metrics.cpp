#include "horo/runtime/rank_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/agreement.h"
#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/metrics/metrics_files.h"
#include "horo/metrics/metrics_writer.h"
#include "horo/metrics/rank_meter.h"

namespace horo {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  throw InvalidArgument(
      fmt::format("HORO_METRICS: {}; set it to a directory that every rank can write to", problem));
}

}  // namespace

RankMetrics::RankMetrics() = default;
RankMetrics::~RankMetrics() = default;

RankMetrics::RankMetrics(const std::string& directory, const Topology& topology)
    : topology_(&topology) {
  if (directory.empty()) return;
  meter_ = std::make_shared<metrics::RankMeter>();
  try {
    files_ = std::make_unique<metrics::MetricsFiles>(directory, topology.rank);
  } catch (const Error& error) {
    job_error_text_ =
        fmt::format("{} cannot write {}", topology.describe(topology.rank), error.what());
  }
}

// If no rank has an error, this function costs one comparison of hashes.
void RankMetrics::require_files(collectives::Collectives& collectives) const {
  if (meter_ == nullptr) return;
  if (collectives::all_equal(Hash().add(job_error_text_).value(), collectives))
    return require_files();
  const auto problems =
      collectives::gather_all(std::as_bytes(std::span(job_error_text_)), collectives, *topology_);
  const auto first = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
  if (first != problems.end())
    refuse(std::string(reinterpret_cast<const char*>(first->data()), first->size()));
}

void RankMetrics::require_files() const {
  if (!job_error_text_.empty()) refuse(job_error_text_);
}

void RankMetrics::start(std::uint64_t job, const observe::FlightRecorder& recorder) {
  if (meter_ == nullptr) return;
  writer_ = std::make_unique<metrics::MetricsWriter>(
      metrics::RankLabel{job, topology_->rank,
                         topology_->host_of[static_cast<std::size_t>(topology_->node)]},
      topology_->size, meter_, recorder, std::move(*files_));
  files_.reset();
}

void RankMetrics::flush(std::chrono::nanoseconds limit) {
  if (writer_ != nullptr) writer_->flush(limit);
}
void RankMetrics::end() noexcept { writer_.reset(); }
// The destructor would join a thread that does not exist in the child process.
void RankMetrics::forget() noexcept { (void)writer_.release(); }
void RankMetrics::update_ranks(std::span<const observe::RankSnapshot> ranks) {
  writer_->update_ranks(ranks);
}

std::unique_ptr<observe::SnapshotProvider> RankMetrics::measure(
    std::unique_ptr<observe::SnapshotProvider> source) const {
  if (meter_ == nullptr) return source;
  return std::make_unique<metrics::MeasuredState>(std::move(source), meter_);
}

}  // namespace horo
