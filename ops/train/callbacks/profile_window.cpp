#include "ops/train/callbacks/profile_window.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/device/cuda/profiler.h"
#include "horo/device/host/host_device.h"

namespace horo::ops {
namespace {

constexpr std::uint64_t kMostSteps = 100'000;
constexpr auto kEvaluation = static_cast<std::int64_t>(kPhaseCount);  // after the phases
constexpr std::int64_t kStep = kEvaluation + 1;

std::string_view span_name(std::int64_t name) {
  if (name == kStep) return "step";
  if (name == kEvaluation) return "evaluation";
  return name_of(static_cast<StepPhase>(name));
}

std::int64_t now() {
  return std::chrono::nanoseconds(ProfileWindow::Clock::now().time_since_epoch()).count();
}

using RankSpans = std::vector<std::int64_t>;

RankSpans spans_from(std::span<const std::byte> bytes) {
  RankSpans values(bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

// The clocks of hosts have different begins. The barrier ends at about the same time on all hosts.
std::string trace_of(std::span<const std::vector<std::byte>> ranks) {
  std::vector<RankSpans> all;
  std::map<std::int64_t, std::int64_t> begin_of_node;
  for (const auto& bytes : ranks) {
    all.push_back(spans_from(bytes));
    const auto [node, is_new] = begin_of_node.try_emplace(all.back()[0], all.back()[1]);
    node->second = std::min(node->second, all.back()[1]);
  }
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const auto micros = [](std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1000;
  };
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const RankSpans& spans = all[rank];
    const std::int64_t begin = begin_of_node.at(spans[0]);
    text += fmt::format(
        "{}\n{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"args\": "
        "{{\"name\": \"rank {}\"}}}}",
        rank == 0 ? "" : ",", rank, rank);
    for (std::size_t i = 2; i + 3 < spans.size(); i += 4)
      text += fmt::format(
          ",\n{{\"ph\": \"X\", \"name\": \"{}\", \"pid\": {}, \"tid\": 0, \"ts\": {:.3f}, "
          "\"dur\": {:.3f}, \"args\": {{\"step\": {}}}}}",
          span_name(spans[i + 2]), rank, micros(spans[i] - begin), micros(spans[i + 1] - spans[i]),
          spans[i + 3]);
  }
  return text + "\n]}\n";
}

bool write_line(int file, std::string_view line) {
  return write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

ProfileWindow::ProfileWindow(Context& context, Layer& model, const ProfileOptions& options)
    : context_(context), model_(model), options_(options) {
  HORO_CHECK((options.first == 0) == (options.last == 0) && options.first <= options.last,
             fmt::format("a profile of steps {} to {}; the steps are counted from 1, and the last "
                         "one is not below the first",
                         options.first, options.last));
  HORO_CHECK(options.last - options.first < kMostSteps,
             fmt::format("a profile of steps {} to {}; choose at most {} steps", options.first,
                         options.last, kMostSteps));
}

ProfileWindow::~ProfileWindow() {
  if (is_open_) stop_profilers();
}

void ProfileWindow::begin_step(std::uint64_t step) {
  if (step < options_.first || step > options_.last) return;
  if (!is_open_) open(step);
  step_ = step;
  step_begin_ = now();
  current_ = {.begin = step_begin_, .name = static_cast<std::int64_t>(StepPhase::kDataWait)};
  range_.emplace("step", step);
}

void ProfileWindow::open(std::uint64_t step) {
  is_open_ = true;
  first_step_ = step;
  context_.barrier({.name = "train.profile"});
  opened_ = now();
  start_profilers();
}

device::Stream* ProfileWindow::gpu_stream() const {
  device::Stream* const stream = model_.backend().device_stream();
  return stream == nullptr || device::is_host(*stream) ? nullptr : stream;
}

// Without a reader of the FIFO, open() fails in place of waiting for one.
void ProfileWindow::start_profilers() {
  if (gpu_stream() != nullptr) device::start_profiler();
  if (options_.perf_control.empty()) return;
  std::string problem;
  if (context_.rank() == 0) {
    perf_ = ::open(options_.perf_control.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (perf_ < 0 || !write_line(perf_, "enable\n"))
      problem = fmt::format(
          "{}: perf cannot be started: {}; make a FIFO and start the job with "
          "perf record --delay=-1 --control fifo:{}",
          options_.perf_control.string(), std::strerror(errno), options_.perf_control.string());
  }
  require(problem);
}

// Throws the text of rank 0 on all ranks, unless it is empty.
void ProfileWindow::require(const std::string& problem) {
  const auto bytes = std::as_bytes(std::span(problem));
  std::vector<std::byte> text(bytes.begin(), bytes.end());
  context_.broadcast_object(text, {.name = "train.profile"});
  if (!text.empty())
    throw Error(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

void ProfileWindow::stop_profilers() noexcept {
  range_.reset();
  if (gpu_stream() != nullptr) device::stop_profiler();
  if (perf_ < 0) return;
  if (!write_line(perf_, "disable\n"))
    log_warning("perf records beyond the profile: its FIFO cannot be written");
  ::close(std::exchange(perf_, -1));
}

void ProfileWindow::begin_span(std::int64_t name) {
  if (!is_open_) return;
  const std::int64_t time = now();
  end_span(time);
  current_ = {.begin = time, .name = name};
}

void ProfileWindow::end_span(std::int64_t time) {
  current_.end = time;
  current_.step = static_cast<std::int64_t>(step_);
  spans_.push_back(current_);
}

void ProfileWindow::enter(StepPhase phase) { begin_span(static_cast<std::int64_t>(phase)); }

void ProfileWindow::enter_evaluation() { begin_span(kEvaluation); }

std::optional<std::string> ProfileWindow::end_step(std::uint64_t step) {
  if (!is_open_) return std::nullopt;
  const std::int64_t time = now();
  end_span(time);
  spans_.push_back({step_begin_, time, kStep, static_cast<std::int64_t>(step)});
  range_.reset();
  if (step < options_.last) return std::nullopt;
  return close();
}

std::optional<std::string> ProfileWindow::finish() {
  if (!is_open_) return std::nullopt;
  return close();
}

// The device has completed the steps of the window before its profiler stops.
std::string ProfileWindow::close() {
  if (device::Stream* const stream = model_.backend().device_stream()) stream->synchronize();
  is_open_ = false;
  stop_profilers();
  const std::string text = fmt::format("profiled steps {} to {}", first_step_, step_);
  if (options_.trace.empty()) return text;
  write_trace();
  return fmt::format("{}: the phases of all ranks are in {}, for ui.perfetto.dev", text,
                     options_.trace.string());
}

// Every rank sends its node, the time at which the barrier ended, and its spans.
void ProfileWindow::write_trace() {
  std::vector<std::int64_t> own{context_.node(), opened_};
  for (const Span& span : spans_)
    own.insert(own.end(), {span.begin, span.end, span.name, span.step});
  const auto all =
      context_.allgather_object(std::as_bytes(std::span(own)), {.name = "train.profile_spans"});
  std::string problem;
  if (context_.rank() == 0) {
    std::ofstream file(options_.trace, std::ios::trunc);
    file << trace_of(all);
    file.close();
    if (!file) problem = fmt::format("{}: the trace cannot be written", options_.trace.string());
  }
  require(problem);
  spans_.clear();
}

}  // namespace horo::ops
