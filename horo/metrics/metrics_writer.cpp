#include "horo/metrics/metrics_writer.h"

#include <algorithm>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"
#include "horo/flight_recorder/rank_snapshot.h"

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

void MetricsWriter::update_ranks(std::span<const observe::RankSnapshot> ranks) {
  const std::scoped_lock lock(skew_mutex_);
  skew_.update(ranks);
}

// Each request has a number. The writer's thread reads the latest number before it writes, and
// stores this number in flushes_done_ afterwards. So the next round serves a request that arrives
// during a write.
void MetricsWriter::flush(std::chrono::nanoseconds limit) {
  std::unique_lock lock(sleep_mutex_);
  const std::uint64_t asked = ++flushes_asked_;
  wake_.notify_one();
  const auto is_over = [&] { return flushes_done_ >= asked || has_stopped_; };
  if (written_.wait_for(lock, limit, is_over)) return;
  log_warning(
      "HORO_METRICS: the latest measurements were not written within {}, and may be lost: does the "
      "file "
      "system respond?",
      format_duration(limit));
}

void MetricsWriter::run(const std::string& log_label) noexcept {
  try {
    set_log_label(log_label);
    write_rounds();
  } catch (const std::exception& error) {
    log_error("HORO_METRICS: the writer stopped: {}", error.what());
  }
  const std::scoped_lock lock(sleep_mutex_);
  has_stopped_ = true;
  written_.notify_all();
}

// Writes once per interval, after a flush request, and a last time after should_stop_ is set. The
// thread does not hold sleep_mutex_ during file access, so a file system that hangs does not block
// the callers of flush() beyond their limit.
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
  meter_->drain(records_);
  if (records_.empty()) return;
  const RankMeter::Snapshot meter = meter_->snapshot(observe::flight_clock());
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
  if (!files_.replace_page(metrics_page(snapshot()))) warn_once();
}

void MetricsWriter::warn_once() {
  if (std::exchange(has_warned_, true)) return;
  log_warning(
      "HORO_METRICS: cannot write a file (disk full?); lines that cannot be written are lost");
}

// The recorder's count of operations may decrease for a short time while a plan is destroyed. A
// counter on the page must not decrease, so snapshot() keeps the highest count.
MetricsSnapshot MetricsWriter::snapshot() {
  const std::int64_t now = observe::flight_clock();
  const std::uint64_t operations = std::max(operations_, recorder_.operations_finished());
  if (operations != std::exchange(operations_, operations)) operations_changed_ = now;
  const observe::FlightStatus& status = recorder_.layout().header->status;
  MetricsSnapshot snapshot{
      .rank = rank_,
      .size = size_,
      .is_running = recorder_.is_running(),
      .is_paused = observe::load_relaxed(status.pause) != 0,
      .written = observe::wall_time_now(),
      .since_progress = now - std::max(meter_->progress(), operations_changed_),
      .operations = operations,
      .meter = meter_->snapshot(now)};
  snapshot.lost_lines = snapshot.meter.lost + lost_;
  snapshot.since_progress = std::max<std::int64_t>(snapshot.since_progress, 0);
  const std::scoped_lock lock(skew_mutex_);
  snapshot.ranks = skew_.ranks();
  snapshot.skews = skew_.skews();
  skew_.begin_interval();
  return snapshot;
}

}  // namespace horo::metrics
