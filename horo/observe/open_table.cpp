#include "horo/observe/open_table.h"

#include <bit>

#include "horo/observe/flight_recorder.h"

namespace horo::observe {
namespace {

void count_unlisted(const FlightLayout& layout, std::int32_t change) {
  std::atomic_ref(layout.header->status.unlisted)
      .fetch_add(static_cast<std::uint32_t>(change), std::memory_order_relaxed);
}

}  // namespace

std::uint32_t OpenTable::take_row() {
  for (std::size_t word = 0; word < taken_.size(); ++word) {
    std::uint64_t taken = taken_[word].load(std::memory_order_relaxed);
    while (taken != ~std::uint64_t{0}) {
      const std::uint64_t bit = ~taken & (taken + 1);  // the lowest that is free
      if (taken_[word].compare_exchange_weak(taken, taken | bit, std::memory_order_acquire,
                                             std::memory_order_relaxed))
        return static_cast<std::uint32_t>(word * 64 + std::countr_zero(bit));
    }
  }
  return kNoRow;
}

OpenFlight OpenTable::add(const FlightRecord& record, FlightRecorder& recorder) {
  OpenFlight open;
  open.recorder_ = &recorder;
  // A row without a name would stand for any operation.
  open.row_ = record.name == 0 ? kNoRow : take_row();
  open.record_ = record;
  open.record_.sequence = opened_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (open.row_ != kNoRow)
    write(open.row_, open.record_);
  else
    count_unlisted(layout_, 1);
  return open;
}

void OpenTable::write(std::uint32_t row, const FlightRecord& record) {
  write_record(layout_.open[row], record, record.sequence);
}

void OpenTable::free(std::uint32_t row) {
  if (row == kNoRow) return count_unlisted(layout_, -1);
  publish(layout_.open[row].sequence, std::uint64_t{0});
  taken_[row / 64].fetch_and(~(std::uint64_t{1} << row % 64), std::memory_order_release);
}

void OpenFlight::start(std::int64_t agreed, std::int64_t started) {
  if (recorder_ == nullptr) return;
  record_.agreed = agreed;
  record_.started = started;
  if (row_ != OpenTable::kNoRow) {
    publish(recorder_->layout().open[row_].agreed, agreed);
    publish(recorder_->layout().open[row_].started, started);
  }
}

void OpenFlight::finish(std::int64_t ended) {
  if (recorder_ == nullptr) return;
  record_.ended = ended;
  recorder_->add(record_);
  recorder_->count_finished(1);
  recorder_->close(row_);
  recorder_ = nullptr;
}

OpenFlight::~OpenFlight() {
  if (recorder_ == nullptr) return;
  if (recorder_->is_running())
    recorder_->close(row_);
  else if (row_ != OpenTable::kNoRow)
    publish(recorder_->layout().open[row_].ended, flight_clock());
}

}  // namespace horo::observe
