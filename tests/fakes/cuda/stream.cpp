#include "tests/fakes/cuda/stream.h"

#include <utility>

#include "tests/fakes/cuda/accesses.h"
#include "tests/fakes/cuda/capture.h"

namespace horo::fakes {
namespace {

struct HostClock {
  std::mutex mutex;
  Clock clock;
};

HostClock& known() {
  static auto* clock = new HostClock;  // threads of streams may outlive exit()
  return *clock;
}

}  // namespace

Clock host_clock() {
  const std::scoped_lock lock(known().mutex);
  return known().clock;
}

void host_learns(const Clock& clock) {
  const std::scoped_lock lock(known().mutex);
  known().clock.join(clock);
}

std::mutex& streams_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::condition_variable& streams_changed() {
  static auto* changed = new std::condition_variable;
  return *changed;
}

void execute(const Work& work, const std::string& place, Moment& moment) {
  const Actor actor{work.call, place};
  for (const Range& range : work.ranges) Memory::of_process().note(actor, moment, range);
  if (!work.run) return;
  RecordedAccesses accesses(actor);
  work.run(actor, moment);
  accesses.note(moment);
}

void submit(const char* call, cudaStream_t handle, Work work) {
  CUstream_st& stream = checked(call, handle);
  for (const Range& range : work.ranges)
    Memory::of_process().require_live({call, stream.name}, range.data, range.bytes);
  const std::scoped_lock lock(streams_mutex());
  if (stream.capture != nullptr) {
    stream.capture_ends = {stream.capture->add(std::move(work), stream.capture_ends)};
    return;
  }
  stream.queue.emplace_back(std::move(work), host_clock());
  streams_changed().notify_all();
}

}  // namespace horo::fakes

void CUstream_st::start(std::shared_ptr<CUstream_st> self) {
  std::thread([self = std::move(self)] { self->serve(); }).detach();
}

// Ends when the stream is destroyed and its queue is empty.
void CUstream_st::serve() {
  using namespace horo::fakes;  // NOLINT
  for (std::unique_lock lock(streams_mutex());;) {
    streams_changed().wait(lock, [this] { return !queue.empty() || is_destroyed; });
    if (queue.empty()) return;
    const auto& [work, host] = queue.front();
    clock.join(host);
    clock.set(lane, ++tick);
    Moment moment{clock, lane, tick};
    lock.unlock();
    execute(work, name, moment);
    lock.lock();
    clock.join(moment.clock);
    queue.pop_front();
    streams_changed().notify_all();
  }
}
