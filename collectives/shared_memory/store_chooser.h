#pragma once

#include <cstddef>

#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// The bandwidth from rank to rank through the slots, in bytes per second.
struct StoreBandwidths {
  double plain = 0;
  double streaming = 0;
};

/// Measures both kinds of stores. In each round, every rank writes step_bytes() bytes to its slot
/// and reads as many bytes from the slot of the next rank. Unmeasured rounds over all slots come
/// first, so that the measured rounds find the cache lines in the same caches as later collectives
/// do. Returns, for each kind, the bandwidth of the slowest rank in its fastest round. This result
/// is equal on all ranks. Collective over the group. Typically takes 1 to 5 ms.
StoreBandwidths probe_stores(NodeMemory& memory);

/// Detects that plain stores have become several times slower, as happens when ranks are moved to
/// cores that share no cache. One slow sample is not enough, because the scheduler may have
/// suspended the rank. Two consecutive slow samples are enough.
class StorePace {
 public:
  /// A sample is slow if the fastest rate so far is more than this factor above its rate. In
  /// measurements, plain stores were 4 to 7 times slower between cores that do not share a cache.
  static constexpr double kFarSlower = 3;

  /// Adds a sample: `bytes` of a collective took `seconds`. Returns whether this sample and the
  /// previous one were slow.
  bool has_dropped(std::size_t bytes, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds;
    if (rate > fastest_) fastest_ = rate;
    slow_samples_ = rate * kFarSlower < fastest_ ? slow_samples_ + 1 : 0;
    return slow_samples_ >= 2;
  }
  /// Call this before the first sample of a collective. Samples of different collectives are not
  /// consecutive.
  void begin() { slow_samples_ = 0; }

 private:
  double fastest_ = 0;
  int slow_samples_ = 0;
};

/// Chooses between plain and streaming stores by probing. choose() probes in its first call and
/// then after every kBytesBetweenProbes bytes, because hypervisors and schedulers move ranks
/// between cores. It also probes after a rank has observed that plain stores have become far
/// slower. All ranks probe in the same call of choose(), because they count the same bytes and
/// exchange their requests for a probe. All ranks base the choice on the same bandwidths.
class StoreChooser {
 public:
  static constexpr std::size_t kBytesBetweenProbes = std::size_t{512} << 20;
  /// The initial number of bytes after a probe in which a rank does not request another probe. On a
  /// rank, the number doubles after each of its requests that the probe does not confirm, and
  /// returns to this value after a confirmed request.
  static constexpr std::size_t kBytesBeforeRequest = std::size_t{32} << 20;

  /// With kAuto, choose() chooses by probing. Otherwise, it always returns `setting`.
  explicit StoreChooser(Stores setting) : setting_(setting) {}

  /// Returns the kind of stores for the next collective, which transfers `bytes`. All ranks must
  /// call this function with equal `bytes`, between the same collectives. Collective over the group
  /// if a probe is due.
  Stores choose(NodeMemory& memory, std::size_t bytes);
  /// Returns the bandwidths of the latest probe, or zeros before the first probe.
  const StoreBandwidths& bandwidths() const { return bandwidths_; }
  /// The number of probes so far.
  int probes() const { return probes_; }

  /// Call this at the start of a collective that calls add_sample().
  void begin_samples() { pace_.begin(); }
  /// Adds a sample of a transfer with stores of the kind `used`. Returns the kind for the rest of
  /// the collective on this rank: streaming stores if plain stores have become far slower, and
  /// `used` otherwise.
  Stores add_sample(Stores used, std::size_t bytes, double seconds);
  /// Whether this rank requests a probe. The caller sends the request to the other ranks.
  bool wants_probe() const { return wants_probe_; }
  /// Makes the next call of choose() probe. If any rank requests a probe, all ranks must call this
  /// function in the same collective.
  void probe_next();

 private:
  Stores setting_;
  Stores chosen_ = Stores::kPlain;
  StoreBandwidths bandwidths_;
  int probes_ = 0;
  std::size_t bytes_until_probe_ = 0;
  StorePace pace_;
  bool wants_probe_ = false;
  std::size_t bytes_before_request_ = kBytesBeforeRequest;
};

}  // namespace horo::collectives
