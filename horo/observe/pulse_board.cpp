#include "horo/observe/pulse_board.h"

#include <unistd.h>

#include <atomic>

#include "horo/base/error.h"
#include "horo/observe/process_state.h"
#include "horo/observe/seqlock_bytes.h"
#include "horo/observe/snapshot_codec.h"

namespace horo::observe {

struct alignas(64) PulseBoard::Place {
  std::atomic<std::int64_t> pid{0};
  std::atomic<std::uint64_t> start_time{0};
  std::atomic<std::uint64_t> machine{0};
  std::atomic<std::uint64_t> heartbeat{0};
  std::atomic<bool> has_left{false};
  std::atomic<bool> has_hub_left{false};
  SeqlockBytes<kMaxSnapshotBytes> snapshot;
};

std::size_t PulseBoard::bytes_for(int ranks) {
  return static_cast<std::size_t>(ranks) * sizeof(Place);
}

PulseBoard::PulseBoard(std::span<std::byte> memory, int local_rank, int ranks)
    : memory_(memory), local_rank_(local_rank), ranks_(ranks) {
  HORO_CHECK(memory_.size() >= bytes_for(ranks), "the board needs more memory");
  Place& own = place(local_rank_);
  const std::int64_t pid = getpid();
  const auto start_time = start_of_process(pid);
  own.start_time = start_time.value_or(0);
  own.machine = start_time ? this_machine() : 0;
  own.pid = pid;
}

PulseBoard::Place& PulseBoard::place(int local_rank) const {
  return reinterpret_cast<Place*>(memory_.data())[local_rank];
}

void PulseBoard::publish(const RankSnapshot& snapshot) {
  Place& own = place(local_rank_);
  own.snapshot.write(encode(snapshot));
  own.heartbeat.fetch_add(1, std::memory_order_relaxed);
}

void PulseBoard::leave() { place(local_rank_).has_left = true; }

void PulseBoard::note_that_hub_has_left() { place(local_rank_).has_hub_left = true; }

bool PulseBoard::has_hub_left() const {
  for (int local_rank = 0; local_rank < ranks_; ++local_rank)
    if (place(local_rank).has_hub_left) return true;
  return false;
}

Pulse PulseBoard::read(int local_rank) const {
  const Place& place = this->place(local_rank);
  Pulse pulse;
  pulse.pid = place.pid;
  pulse.start_time = place.start_time;
  pulse.machine = place.machine;
  pulse.heartbeat = place.heartbeat;
  pulse.has_left = place.has_left;
  if (const auto bytes = place.snapshot.read()) pulse.snapshot = decode_snapshot(*bytes);
  return pulse;
}

std::uint64_t PulseBoard::heartbeat(int local_rank) const { return place(local_rank).heartbeat; }

}  // namespace horo::observe
