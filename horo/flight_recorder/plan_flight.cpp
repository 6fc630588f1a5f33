#include "horo/flight_recorder/plan_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace horo::observe {
namespace {

// Returns the index of the first of `count` consecutive free entries in the table of gradients, or
// the size of the table if there are not so many. Requires plans_mutex().
std::uint32_t find_free_entries(const FlightLayout& layout, std::size_t count) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> used;
  for (const FlightPlanEntry& plan : layout.plans)
    if (plan.name != 0) used.emplace_back(plan.first, plan.first + plan.gradients);
  std::sort(used.begin(), used.end());
  std::uint32_t begin = 0;
  for (const auto& [first, end] : used) {
    if (first - begin >= count) return begin;
    begin = std::max(begin, end);
  }
  const auto all = static_cast<std::uint32_t>(layout.gradients.size());
  return all - begin >= count ? begin : all;
}

}  // namespace

PlanFlight::PlanFlight(FlightRecorder& recorder, const PlanDescription& description)
    : recorder_(recorder), name_(description.name), times_(description.bytes_of.size()) {
  for (std::size_t b = 0; b < times_.size(); ++b) {
    times_[b].bytes = description.bytes_of[b];
    times_[b].is_always_timed = description.bytes_of[b] >= kAlwaysTimed;
  }
  pattern_.name = recorder.name(description.name);
  pattern_.kind = static_cast<std::uint16_t>(recorder.name(kBucketKind));
  pattern_.op = static_cast<std::uint8_t>(description.op);
  pattern_.type = static_cast<std::uint8_t>(description.type);
  pattern_.process_set = static_cast<std::uint16_t>(recorder.name(description.process_set));
  pattern_.lane = kFirstPlanLane;
  wait_kind_ = static_cast<std::uint16_t>(recorder.name(kWaitKind));
  register_plan(description);
  if (marks_ == nullptr) {
    own_marks_.resize(description.gradients.size());
    marks_ = own_marks_.data();
  }
}

// If a table has no room, entry_ or marks_ stays unchanged. The plan then writes to memory of its
// own, which no reader sees. Lock order: plans_mutex(), then NameTable::mutex().
void PlanFlight::register_plan(const PlanDescription& description) {
  const FlightLayout& layout = recorder_.layout();
  const std::scoped_lock lock(recorder_.plans_mutex());
  const auto slot = std::find_if(layout.plans.begin(), layout.plans.end(),
                                 [](const FlightPlanEntry& plan) { return plan.name == 0; });
  // Without the name of its process set, the plan would look like a plan of all ranks.
  const bool has_lost_set = pattern_.process_set == 0 && !description.process_set.empty();
  if (slot == layout.plans.end() || pattern_.name == 0 || has_lost_set) return;
  const std::size_t count = description.gradients.size();
  const std::uint32_t first = find_free_entries(layout, count);
  pattern_.lane = static_cast<std::uint16_t>(kFirstPlanLane + (slot - layout.plans.begin()));
  entry_ = &*slot;
  const std::uint32_t uses = slot->slot_uses + 1;
  *entry_ = {.slot_uses = uses,
             .buckets = static_cast<std::uint32_t>(times_.size()),
             .lane = pattern_.lane,
             .bytes = std::accumulate(description.bytes_of.begin(), description.bytes_of.end(),
                                      std::uint64_t{0}),
             .progress_at = flight_clock(),
             .process_set = pattern_.process_set};
  if (first < layout.gradients.size() && count > 0) {
    entry_->first = first;
    entry_->gradients = static_cast<std::uint32_t>(count);
    marks_ = &layout.marks[first];
    for (std::size_t i = 0; i < count; ++i) {
      layout.gradients[first + i] = {recorder_.name(description.gradients[i]),
                                     static_cast<std::uint32_t>(description.bucket_of[i])};
      store_relaxed(marks_[i], FlightMark{0});
    }
  }
  // Stored last, with release order, so that an entry with a name is complete for readers.
  store_release(entry_->name, pattern_.name);
}

PlanFlight::~PlanFlight() {
  if (!recorder_.is_running()) return;  // the entry stays for readers
  recorder_.count_finished_buckets(step_ * times_.size());
  if (entry_ == &own_entry_) return;
  const std::scoped_lock lock(recorder_.plans_mutex());
  store_relaxed(entry_->name, NameId{0});
}

void PlanFlight::record(std::size_t bucket, bool is_on_own_thread) {
  Times& times = times_[bucket];
  FlightRecord record = pattern_;
  if (!is_on_own_thread) record.lane = kProgramLane;
  record.part = static_cast<std::uint32_t>(bucket);
  record.bytes = times.bytes;
  record.started = times.started.load(std::memory_order_relaxed);
  // `first` or `complete` may be missing, for example if two threads have marked gradients of the
  // bucket at the same time. Such a time may also be left over from an earlier step.
  const std::int64_t first = times.first.exchange(0, std::memory_order_relaxed);
  const std::int64_t complete = times.complete.exchange(0, std::memory_order_relaxed);
  record.submitted = first != 0 ? first : record.started;
  record.agreed = complete >= record.submitted ? complete : record.started;
  record.ended = flight_clock();
  recorder_.add(record);
}

void PlanFlight::record_wait(std::int64_t since) {
  FlightRecord record = pattern_;
  record.kind = wait_kind_;
  record.lane = kProgramLane;
  record.started = since;
  record.ended = flight_clock();
  recorder_.add(record);
}

void PlanFlight::fail(std::size_t bucket, std::string_view text) noexcept {
  give_up();
  try {
    recorder_.fail(fmt::format("'{}/bucket {}': {}", name_, bucket, text));
  } catch (...) {  // NOLINT: out of memory; only the prefix is lost
    recorder_.fail(text);
  }
}

}  // namespace horo::observe
