#include "horo/observe/leader_client.h"

namespace horo::observe {
namespace {

constexpr auto kTimePerAddress = std::chrono::seconds(2);

}  // namespace

LeaderClient::LeaderClient(const MeetingPoint& point, int node, int ranks_of_node)
    : point_(point),
      addresses_(point.address_list()),
      node_(node),
      max_message_(max_message_bytes(ranks_of_node)) {}

void LeaderClient::try_next_address(Time now) {
  socket_ = FrameSocket::connect(addresses_[next_address_++ % addresses_.size()], point_.port,
                                 max_message_);
  tried_ = now;
  is_welcome_ = false;
  if (!first_try_) first_try_ = now;
  if (socket_) socket_->send(encode(Hello{point_.of_nodes, node_}));
}

void LeaderClient::exchange(const Report& report, Time now) {
  if (point_.port == 0 || addresses_.empty() || has_hub_left_) return;
  if (socket_) hear(now);
  const bool is_usable =
      socket_ && socket_->is_open() && (is_welcome_ || now - tried_ < kTimePerAddress);
  if (!is_usable) try_next_address(now);
  if (is_welcome_) socket_->send(encode(report));
}

void LeaderClient::hear(Time now) {
  while (const auto frame = socket_->receive()) {
    const auto message = decode_link_message(*frame);
    if (!message) return socket_->close();
    if (const auto* welcome = std::get_if<Welcome>(&*message)) {
      if (welcome->secret != point_.of_hub) return socket_->close();
      is_welcome_ = true;
      last_heard_ = now;
    } else if (const auto* word = std::get_if<Word>(&*message); word != nullptr && is_welcome_) {
      last_heard_ = now;
      if (!word->end_reason.empty()) end_reason_ = word->end_reason;
      has_hub_left_ = word->is_last;
      is_paused_ = word->is_paused;
      does_hub_see_all_ = word->sees_all;
    }
  }
}

void LeaderClient::start_anew(Time now) {
  if (last_heard_) last_heard_ = now;
}

}  // namespace horo::observe
