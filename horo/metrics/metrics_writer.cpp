#include "horo/metrics/metrics_writer.h"

#include <algorithm>
#include <utility>

#include "horo/base/log.h"
#include "horo/base/quantity.h"
#include "horo/observe/wall_clock.h"

namespace horo::metrics {

MetricsWriter::MetricsWriter(RankLabel rank, int size, std::shared_ptr<RankMeter> meter,
                             const observe::FlightRecorder& recorder, MetricsFiles files)
    : rank_(std::move(rank)),
      size_(size),
      meter_(std::move(meter)),
      recorder_(recorder),
      files_(std::move(files)),
      operations_changed_(observe::flight_clock()),
      thread_([this, label = log_label()] { run(label); }) {}

MetricsWriter::~MetricsWriter() {
  {
    const std::scoped_lock lock(sleep_mutex_);
    should_stop_ = true;
  }
  wake_.notify_one();
}

void MetricsWriter::note_ranks(std::span<const observe::RankSnapshot> ranks) {
  const std::scoped_lock lock(skew_mutex_);
  skew_.note(ranks);
}

void MetricsWriter::flush(std::chrono::nanoseconds limit) {
  std::unique_lock lock(sleep_mutex_);
  const std::uint64_t asked = ++flushes_asked_;
  wake_.notify_one();
  const auto is_over = [&] { return flushes_done_ >= asked || has_stopped_; };
  if (written_.wait_for(lock, limit, is_over)) return;
  log_warning(
      "HORO_METRICS: the last interval was not written within {}, and may be lost: does the file "
      "system respond?",
      format_duration(limit));
}

void MetricsWriter::run(const std::string& log_label) noexcept {
  try {
    set_log_label(log_label);
    write_rounds();
  } catch (const std::exception& error) {
    log_error("HORO_METRICS: nothing more is written: {}", error.what());
  }
  const std::scoped_lock lock(sleep_mutex_);
  has_stopped_ = true;
  written_.notify_all();
}

void MetricsWriter::write_rounds() {
  bool is_last = false;
  for (int round = 0; !is_last; ++round) {
    std::uint64_t flushes = 0;
    bool is_flush = false;
    {
      std::unique_lock lock(sleep_mutex_);
      wake_.wait_for(lock, kLinesInterval,
                     [this] { return should_stop_ || flushes_asked_ > flushes_done_; });
      is_last = should_stop_;
      flushes = flushes_asked_;
      is_flush = flushes > flushes_done_;
    }
    write_lines();
    if (is_last || is_flush || round % kLinesPerPage == 0) write_page();
    const std::scoped_lock lock(sleep_mutex_);
    flushes_done_ = flushes;
    written_.notify_all();
  }
}

void MetricsWriter::write_lines() {
  meter_->take(records_);
  if (records_.empty()) return;
  const RankMeter::Picture meter = meter_->picture(observe::flight_clock());
  const std::int64_t wall_offset = observe::wall_time_now() - observe::flight_clock();
  std::string lines;
  for (const StepRecord& record : records_) {
    lines +=
        step_line(rank_, meter.plans[record.plan].label, record, meter.phase_names, wall_offset);
    lines += '\n';
  }
  if (files_.append(lines)) return;
  lost_ += records_.size();
  warn_once();
}

void MetricsWriter::write_page() {
  if (!files_.replace_page(metrics_page(picture()))) warn_once();
}

void MetricsWriter::warn_once() {
  if (std::exchange(has_warned_, true)) return;
  log_warning(
      "HORO_METRICS: a file cannot be written, is the disk full? What finds no room is lost");
}

MetricsPicture MetricsWriter::picture() {
  const std::int64_t now = observe::flight_clock();
  const std::uint64_t operations = std::max(operations_, recorder_.operations_finished());
  if (operations != std::exchange(operations_, operations)) operations_changed_ = now;
  const observe::FlightStatus& status = recorder_.layout().header->status;
  MetricsPicture picture{.rank = rank_,
                         .size = size_,
                         .is_running = recorder_.is_running(),
                         .is_paused = observe::look_at(status.pause) != 0,
                         .written = observe::wall_time_now(),
                         .since_progress = now - std::max(meter_->progress(), operations_changed_),
                         .operations = operations,
                         .meter = meter_->picture(now)};
  picture.lost_lines = picture.meter.lost + lost_;
  picture.since_progress = std::max<std::int64_t>(picture.since_progress, 0);
  const std::scoped_lock lock(skew_mutex_);
  picture.ranks = skew_.ranks();
  picture.skews = skew_.skews();
  skew_.begin_interval();
  return picture;
}

}  // namespace horo::metrics
