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

/// Measures both kinds of stores with the access pattern of the pipeline. In each round, every rank
/// fills its slot and reads the slot of the next rank. Unmeasured rounds over all slots come first,
/// so that the measured rounds find each cache line in the same cache as in later collectives. For
/// each kind, returns the bandwidth of the slowest rank, which is equal on all ranks. Collective
/// over the group. Takes 1 to 5 ms.
StoreBandwidths probe_stores(NodeMemory& memory);

/// Detects that plain stores have become several times slower, because the cores of the ranks no
/// longer share a cache. One slow sample is not enough, because the scheduler may have suspended
/// the rank. Two consecutive slow samples are enough.
class StorePace {
 public:
  /// Plain stores are 4 to 7 times slower between cores that do not share a cache.
  static constexpr double kFarSlower = 3;

  /// Adds a sample: `bytes` of a collective took `seconds`. Returns whether this sample and the
  /// previous sample were more than kFarSlower times slower than the fastest sample so far.
  bool has_dropped(std::size_t bytes, double seconds) {
    const double rate = static_cast<double>(bytes) / seconds;
    if (rate > fastest_) fastest_ = rate;
    slow_samples_ = rate * kFarSlower < fastest_ ? slow_samples_ + 1 : 0;
    return slow_samples_ >= 2;
  }
  /// Starts a new sequence. Samples before and after this call are not consecutive.
  void begin() { slow_samples_ = 0; }

 private:
  double fastest_ = 0;
  int slow_samples_ = 0;
};

/// Chooses between plain and streaming stores by probing. It probes before the first collective and
/// after every kBytesBetweenProbes bytes, because hypervisors and schedulers move ranks between
/// cores. It also probes when a rank observes that plain stores have become far slower. All ranks
/// probe in the same collective, because they count the same bytes and exchange their requests for
/// a probe. All ranks base the choice on the same bandwidths.
class StoreChooser {
 public:
  static constexpr std::size_t kBytesBetweenProbes = std::size_t{512} << 20;
  /// The number of bytes after a probe during which no rank requests another probe. The number
  /// doubles after each request that a probe does not confirm.
  static constexpr std::size_t kBytesBeforeRequest = std::size_t{32} << 20;

  /// With kAuto, the choice is made by probing. Any other setting is always chosen.
  explicit StoreChooser(Stores setting) : setting_(setting) {}

  /// Returns the kind of stores for the next collective, which transfers `bytes`. Collective over
  /// the group if a probe is due.
  Stores choose(NodeMemory& memory, std::size_t bytes);
  /// Returns the bandwidths of the latest probe, or zeros before the first probe.
  const StoreBandwidths& bandwidths() const { return bandwidths_; }
  /// The number of probes so far.
  int probes() const { return probes_; }

  /// Call this at the start of a collective that reports its samples by add_sample().
  void begin_samples() { pace_.begin(); }
  /// Adds a sample. Returns the stores for the rest of the collective: streaming stores, on this
  /// rank only, if plain stores have become far slower.
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
