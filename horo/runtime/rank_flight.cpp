#include "horo/runtime/rank_flight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <functional>

#include "horo/base/error.h"
#include "horo/base/system/launch_environment.h"
#include "horo/base/text/log.h"
#include "horo/flight_recorder/flight_reader.h"

namespace horo {

namespace {

// hororun sets HORO_FLIGHT_DIR to "auto:NUMBER-PID", where NUMBER is a number for the job in
// hexadecimal digits. A rank uses this number before the ranks have agreed on a number. Returns
// nullopt if hororun has not chosen the directory.
std::optional<std::uint64_t> job_of_launcher(std::string_view setting) {
  constexpr std::string_view kPrefix = "auto:";
  if (!setting.starts_with(kPrefix)) return std::nullopt;
  setting.remove_prefix(kPrefix.size());
  std::uint64_t job = 0;
  std::from_chars(setting.data(), setting.data() + setting.size(), job, 16);
  return job == 0 ? std::nullopt : std::optional(job);
}

}  // namespace

// A recorder without a file is not an error, because the watchdog reads the recorder from memory.
// Only other processes, such as hororun, need the file. The crash recorder refers to the header of
// the recorder, so the crash recorder is destroyed first. One rank per node prunes old directories.
RankFlight::RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
                       const Topology& topology, AbortSignal* abort)
    : rank_(topology.rank), has_launcher_(job_of_launcher(setting).has_value()) {
  observe::FlightJob job{.id = clock.job,
                         .rank = topology.rank,
                         .size = topology.size,
                         .node = topology.node,
                         .node_count = topology.node_count,
                         .host = topology.host_of[static_cast<std::size_t>(topology.node)],
                         .clock_offset = clock.clock_offset,
                         .path = {},
                         .abort = abort};
  location_ = observe::flight_location(setting, clock.job);
  if (location_ && location_->is_default && !is_process) location_.reset();
  if (location_) {
    try {
      observe::create_flight_directory(*location_);
      job.path = location_->directory / observe::flight_file_name(rank_);
      recorder_ = std::make_unique<observe::FlightRecorder>(job);
    } catch (const Error& error) {
      log_warning(
          "the flight recorder has no file, so a crash of this rank leaves no record: {}; set "
          "HORO_FLIGHT_DIR to another directory, or to off",
          error.what());
      location_.reset();
      job.path.clear();
    }
  }
  if (recorder_ == nullptr) recorder_ = std::make_unique<observe::FlightRecorder>(job);
  if (is_process)
    crash_recorder_ = std::make_unique<observe::CrashRecorder>(
        *recorder_->layout().header, abort,
        fmt::format("rank {} (host {}, pid {})", rank_, job.host, getpid()));
  if (location_ && location_->is_default && topology.local_rank == 0)
    observe::prune_flights(location_->directory.parent_path());
}

// The files of the default directory are needed only if the job fails.
void RankFlight::end() noexcept {
  recorder_->end();
  if (location_ && location_->is_default) observe::remove_flight(*location_, rank_);
}

// Only rank 0 returns the hint, so that a job prints it once.
std::string RankFlight::post_mortem_hint() const {
  const auto state = observe::load_relaxed(recorder_->layout().header->status.state);
  if (!location_ || has_launcher_ ||
      (state != observe::FlightState::kFailed && state != observe::FlightState::kAborted) ||
      rank_ != 0)
    return {};
  return fmt::format("the records of the ranks are in {}; read them with: hororun doctor {}",
                     location_->directory.string(), location_->directory.string());
}

namespace {

// Whether a living process writes to the recorder file `path`. If init() failed after this process
// had created its recorder, the file already has the failure, and a second recorder would overwrite
// the file.
bool has_living_recorder(const std::string& path) {
  try {
    return observe::is_writer_alive(observe::read_flight(path));
  } catch (const Error&) {
    return false;  // there is no file, or it cannot be read
  }
}

// Makes a recorder for a rank that ends in init(), and calls `end` to record the reason in that
// recorder. Uses the environment only, because the settings may be the cause of the failure.
void record_early_end(
    const std::vector<std::string>& environment,
    const std::function<void(observe::FlightRecorder&, const observe::FlightJob&)>& end) {
  constexpr std::string_view kName = "HORO_FLIGHT_DIR=";
  std::string_view setting;
  for (const std::string& entry : environment)
    if (entry.starts_with(kName)) setting = std::string_view(entry).substr(kName.size());
  const auto launched = launched_job(environment);
  if (!launched || setting.empty() || setting == "auto") return;
  const std::uint64_t id = job_of_launcher(setting).value_or(own_clock().job);
  const auto location = observe::flight_location(setting, id);
  if (!location) return;
  char host[HOST_NAME_MAX + 1] = "?";
  gethostname(host, sizeof host - 1);
  const observe::FlightJob job{
      .id = id,
      .rank = launched->rank,
      .size = launched->size,
      .host = host,
      .path = location->directory / observe::flight_file_name(launched->rank)};
  if (has_living_recorder(job.path)) return;
  observe::create_flight_directory(*location);
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
