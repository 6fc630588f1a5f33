#include "horo/rank_flight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <functional>

#include "collectives/mpi/launch_signs.h"
#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/observe/flight_reader.h"

namespace horo {

RankFlight::RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
                       const Topology& topology, AbortSignal* abort)
    : rank_(topology.rank) {
  observe::FlightJob job{.id = clock.job,
                         .rank = topology.rank,
                         .size = topology.size,
                         .node = topology.node,
                         .node_count = topology.node_count,
                         .host = topology.host_of[static_cast<std::size_t>(topology.node)],
                         .clock_offset = clock.clock_offset,
                         .path = {},
                         .abort = abort};
  place_ = observe::flight_place(setting, clock.job);
  if (place_ && place_->is_default && !is_process) place_.reset();
  if (place_) {
    try {
      observe::make_flight_place(*place_);
      job.path = place_->directory / observe::flight_file_name(rank_);
      recorder_ = std::make_unique<observe::FlightRecorder>(job);
    } catch (const Error& error) {
      log_warning(
          "the flight recorder has no file, so nothing will be known if this rank dies: {}; give "
          "another directory with HORO_FLIGHT_DIR, or HORO_FLIGHT_DIR=off",
          error.what());
      place_.reset();
      job.path.clear();
    }
  }
  if (recorder_ == nullptr) recorder_ = std::make_unique<observe::FlightRecorder>(job);
  if (is_process)
    crash_recorder_ = std::make_unique<observe::CrashRecorder>(
        *recorder_->layout().header, abort,
        fmt::format("rank {} (host {}, pid {})", rank_, job.host, getpid()));
  if (place_ && place_->is_default && topology.local_rank == 0)
    observe::prune_flights(place_->directory.parent_path());
}

void RankFlight::end() noexcept {
  recorder_->end();
  if (place_ && place_->is_default) observe::remove_flight(*place_, rank_);
}

std::string RankFlight::farewell() const {
  const auto state = observe::look_at(recorder_->layout().header->status.state);
  if (!place_ ||
      (state != observe::FlightState::kFailed && state != observe::FlightState::kAborted) ||
      rank_ != 0)
    return {};
  return fmt::format("what the ranks did last is in {}: hororun doctor {}",
                     place_->directory.string(), place_->directory.string());
}

namespace {

// The launcher's number of the job, which is older than any that the ranks agree on: it begins the
// name in "auto:NAME".
std::uint64_t job_of_launcher(std::string_view setting) {
  std::uint64_t job = 0;
  const std::string_view name = setting.substr(std::min(setting.find(':'), setting.size() - 1) + 1);
  std::from_chars(name.data(), name.data() + name.size(), job, 16);
  return setting.starts_with("auto:") && job != 0 ? job : own_clock().job;
}

bool has_living_recorder(const std::string& path) {
  try {
    return observe::is_writer_alive(observe::read_flight(path));
  } catch (const Error&) {
    return false;  // there is none
  }
}

// `end` records why the rank ends, into a new recorder.
void record_early_end(
    const std::vector<std::string>& environment,
    const std::function<void(observe::FlightRecorder&, const observe::FlightJob&)>& end) {
  constexpr std::string_view kName = "HORO_FLIGHT_DIR=";
  std::string_view setting;
  for (const std::string& entry : environment)
    if (entry.starts_with(kName)) setting = std::string_view(entry).substr(kName.size());
  const auto launched = collectives::launched_job(environment);
  if (!launched || setting.empty() || setting == "auto") return;
  const std::uint64_t id = job_of_launcher(setting);
  const auto place = observe::flight_place(setting, id);
  if (!place) return;
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  const observe::FlightJob job{
      .id = id,
      .rank = launched->rank,
      .size = launched->size,
      .host = host,
      .path = place->directory / observe::flight_file_name(launched->rank)};
  if (has_living_recorder(job.path)) return;
  observe::make_flight_place(*place);
  observe::FlightRecorder recorder(job);
  end(recorder, job);
}

}  // namespace

void record_failed_init(const std::vector<std::string>& environment,
                        std::string_view why) noexcept {
  try {
    record_early_end(environment, [&](auto& recorder, const auto& job) {
      recorder.fail(
          fmt::format("rank {} (host {}) failed in horo::init(): {}", job.rank, job.host, why));
    });
  } catch (const std::exception& error) {
    log_debug("the failure of horo::init() was not recorded: {}", error.what());
  }
}

void record_wait_in_init(const std::vector<std::string>& environment,
                         std::string_view why) noexcept {
  try {
    record_early_end(environment, [&](auto& recorder, const auto&) { recorder.give_up(why); });
  } catch (const std::exception& error) {
    log_debug("the end of a wait in horo::init() was not recorded: {}", error.what());
  }
}

}  // namespace horo
