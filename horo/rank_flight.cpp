#include "horo/rank_flight.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "horo/base/log.h"

namespace horo {

RankFlight::RankFlight(const std::string& setting, bool is_process, const JobClock& clock,
                       const Topology& topology)
    : rank_(topology.rank) {
  observe::FlightJob job{.id = clock.job,
                         .rank = topology.rank,
                         .size = topology.size,
                         .node = topology.node,
                         .node_count = topology.node_count,
                         .host = topology.host_of[static_cast<std::size_t>(topology.node)],
                         .clock_offset = clock.clock_offset,
                         .path = {}};
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
  if (place_ && is_process)
    last_words_ = std::make_unique<observe::LastWords>(recorder_->layout().header->status);
  if (place_ && place_->is_default && topology.local_rank == 0)
    observe::prune_flights(place_->directory.parent_path());
}

void RankFlight::end() noexcept {
  recorder_->end();
  if (place_ && place_->is_default) observe::remove_flight(*place_, rank_);
}

std::string RankFlight::farewell() const {
  const auto state = observe::look_at(recorder_->layout().header->status.state);
  if (!place_ || state != observe::FlightState::kFailed || rank_ != 0) return {};
  return fmt::format("what the ranks did last is in {}: hororun doctor {}",
                     place_->directory.string(), place_->directory.string());
}

}  // namespace horo
