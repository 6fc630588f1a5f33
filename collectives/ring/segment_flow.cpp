#include "collectives/ring/segment_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "collectives/ring/sub_group.h"

namespace horo::collectives {

bool FlowEnds::may_receive(std::size_t, std::size_t) const { return true; }
bool FlowEnds::may_process(std::size_t, std::size_t) const { return true; }

void SegmentFlow::start(const Plan& plan, FlowEnds& ends) {
  plan_ = plan;
  ends_ = &ends;
  processed_ = sent_ = 0;
  if (staging_.size() < 2 * kWindow * plan.slot_bytes)
    staging_.resize(2 * kWindow * plan.slot_bytes);
  progress();
}

// A ring of flows (lead >= 1) cannot deadlock. No call of progress() blocks, and every rank
// advances both directions. Send i is posted when receive i - lead is processed and send i -
// kWindow is done. The first `lead` sends need no receive. A posted send i is done when the right
// neighbour has posted receive i, or earlier if the message is buffered. Receive i is posted when
// receive i - kWindow is processed and, by may_receive(), when certain sends before send i are
// done. A posted receive i is processed when send i of the left neighbour has arrived and, by
// may_process(), when sends of this rank up to send i are done. Every chain of these dependencies
// therefore leads to smaller numbers and ends.
//
// In a chain of flows (lead 0), send i also needs receive i of the same rank. This dependency leads
// to the same number, but one rank closer to the root, which receives nothing. Every chain of
// dependencies therefore ends there too.
bool SegmentFlow::progress() {
  if (is_finished()) return false;
  bool has_moved = post_receives();
  has_moved |= post_sends();
  has_moved |= process_received();
  has_moved |= complete_sends();
  return has_moved;
}

void SegmentFlow::finish() {
  std::optional<Waiter> waiter;
  std::string what;
  std::uint32_t idle_turns = 0;
  while (!is_finished()) {
    // Any progress starts a new wait, so the timeout limits the time without progress.
    if (progress()) {
      waiter.reset();
      idle_turns = 0;
      continue;
    }
    constexpr std::uint32_t kTurnsBeforeDescribing = 16;  // the text costs more than a short wait
    if (++idle_turns < std::min(kTurnsBeforeDescribing, peers_.wait_policy().quick_polls)) continue;
    if (!waiter) {
      what = describe_wait();
      waiter.emplace(peers_.wait_policy());
    }
    waiter->pause(what);
  }
}

// Receive r uses slot r % kWindow, and send s uses slot kWindow + s % kWindow. In each direction,
// at most kWindow transfers are in flight, and they are completed in order. A slot is therefore
// free before its next use.
bool SegmentFlow::post_receives() {
  bool has_moved = false;
  while (receives_.size() < kWindow) {
    const std::size_t next = processed_ + receives_.size();
    if (next >= plan_.receives || !ends_->may_receive(next, sent_)) break;
    const std::span<std::byte> bytes = ends_->incoming(next, slot(next % kWindow));
    receives_.push_back(
        {bytes.empty() ? 0 : peers_.start_receive(plan_.from, kFlowTag, bytes), bytes});
    has_moved = true;
  }
  return has_moved;
}

bool SegmentFlow::process_received() {
  bool has_moved = false;
  while (!receives_.empty() && ends_->may_process(processed_, sent_) &&
         is_done(receives_.front())) {
    const std::span<std::byte> bytes = receives_.front().bytes;
    if (!bytes.empty()) ends_->process(processed_, bytes);
    receives_.pop_front();
    ++processed_;
    has_moved = true;
    post_sends();
    post_receives();
  }
  return has_moved;
}

bool SegmentFlow::post_sends() {
  bool has_moved = false;
  while (sends_.size() < kWindow) {
    const std::size_t next = sent_ + sends_.size();
    if (next >= plan_.sends || next >= processed_ + plan_.lead) break;
    const auto bytes = ends_->outgoing(next, slot(kWindow + next % kWindow));
    sends_.push_back({bytes.empty() ? 0 : peers_.start_send(plan_.to, kFlowTag, bytes), {}});
    has_moved = true;
  }
  return has_moved;
}

bool SegmentFlow::complete_sends() {
  bool has_moved = false;
  for (; !sends_.empty() && is_done(sends_.front()); ++sent_, has_moved = true) sends_.pop_front();
  return has_moved;
}

bool SegmentFlow::is_done(const InFlight& transfer) {
  return transfer.ticket == 0 || peers_.test(transfer.ticket);
}

std::span<std::byte> SegmentFlow::slot(std::size_t index) {
  return {staging_.data() + index * plan_.slot_bytes, plan_.slot_bytes};
}

std::string SegmentFlow::describe_wait() const {
  if (processed_ < plan_.receives)
    return fmt::format("for {} to send its part of {} ({} of {} segments have arrived)",
                       rank_names_[static_cast<std::size_t>(plan_.from)], plan_.what, processed_,
                       plan_.receives);
  return fmt::format("for {} to receive its part of {} ({} of {} segments are delivered)",
                     rank_names_[static_cast<std::size_t>(plan_.to)], plan_.what, sent_,
                     plan_.sends);
}

}  // namespace horo::collectives
