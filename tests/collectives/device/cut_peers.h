#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "collectives/point_to_point.h"
#include "horo/base/error.h"

namespace horo::collectives {

/// A rank whose link to `lost` is cut: from the start, or as soon as `is_cut`, which outlives this
/// object, is true.
class CutPeers : public PointToPoint {
 public:
  CutPeers(std::unique_ptr<PointToPoint> peers, int lost, const std::atomic<bool>* is_cut = nullptr)
      : peers_(std::move(peers)), lost_(lost), is_cut_(is_cut) {}
  int rank() const override { return peers_->rank(); }
  int size() const override { return peers_->size(); }
  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override {
    if (peer == lost_ && (is_cut_ == nullptr || *is_cut_))
      throw CommunicationError("the link is cut");
    return peers_->start_send(peer, tag, bytes);
  }
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override {
    return peers_->start_receive(peer, tag, bytes);
  }
  bool test(Ticket ticket) override { return peers_->test(ticket); }

 protected:
  const WaitPolicy& default_wait_policy() const override { return peers_->wait_policy(); }

 private:
  std::unique_ptr<PointToPoint> peers_;
  const int lost_;
  const std::atomic<bool>* const is_cut_;
};

}  // namespace horo::collectives
