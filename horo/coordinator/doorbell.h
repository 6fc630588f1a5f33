#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace horo::coordinator {

/// How the thread that runs a rank's named operations is woken. Lies in the node's shared memory,
/// so that the node's other ranks can ring too; zeroed memory is a valid doorbell. Rung by any
/// thread, waited on by one at a time.
class alignas(64) Doorbell {
 public:
  /// What a sleeper wants to be woken for.
  enum class Sleep : std::uint32_t {
    kNone,   ///< it is awake
    kLight,  ///< anything
    kDeep,   ///< this rank's own submissions: without them nothing can complete
  };

  /// For what concerns this rank's own threads: always heard.
  void ring();
  /// For messages of other ranks: heard unless the sleep is deep.
  void ring_gently();
  /// How often it has been rung; to be read before looking for what the rings announced.
  std::uint32_t rings() const { return rings_.load(); }
  /// Says for what the thread that answers the doorbell is to be woken. By that thread; another one
  /// may take its place in between.
  void announce(Sleep sleep) { sleep_ = sleep; }
  /// Sleeps until it is rung, at most `timeout`; not at all if rings() is no longer `seen`. May
  /// return early. After announce().
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes all who sleep here, whatever they announced.
  void wake();

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<Sleep> sleep_{Sleep::kNone};
};

}  // namespace horo::coordinator
