#include "collectives/shared_memory/store_chooser.h"

#include <algorithm>

namespace horo::collectives {
namespace {

// Where cores share no cache, streaming stores are several times as fast; where they do, plain ones
// are by up to two, but a probe that meets cold caches sees both alike.
constexpr double kClearly = 1.5;

}  // namespace

Stores StoreChooser::choose(NodeMemory& memory, std::size_t bytes) {
  if (setting_ != Stores::kAuto) return setting_;
  if (bytes_until_probe_ == 0) {
    bandwidths_ = probe_stores(memory);
    chosen_ =
        bandwidths_.streaming > kClearly * bandwidths_.plain ? Stores::kStreaming : Stores::kPlain;
    bytes_until_probe_ = kBytesBetweenProbes;
    const bool is_confirmed = chosen_ == Stores::kStreaming;
    if (doubts_) bytes_before_doubt_ = is_confirmed ? kBytesBeforeDoubt : 2 * bytes_before_doubt_;
    pace_ = {};
    doubts_ = false;
  }
  bytes_until_probe_ -= std::min(bytes, bytes_until_probe_);
  return chosen_;
}

Stores StoreChooser::after_stretch(Stores used, std::size_t bytes, double seconds) {
  if (setting_ != Stores::kAuto || used != Stores::kPlain) return used;
  if (bytes_until_probe_ + bytes_before_doubt_ > kBytesBetweenProbes) return used;
  if (!pace_.has_dropped(bytes, seconds)) return used;
  doubts_ = true;
  return Stores::kStreaming;
}

void StoreChooser::probe_next() { bytes_until_probe_ = 0; }

}  // namespace horo::collectives
