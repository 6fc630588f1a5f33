#include "horo/observe/leader_hub.h"

#include <sys/socket.h>

#include <algorithm>

#include "horo/observe/host_addresses.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

constexpr auto kTimeForHello = std::chrono::seconds(5);
constexpr std::size_t kMostUninvited = 32;  // besides the nodes that are still to come

// What one who has not shown the secret may send.
std::size_t hello_bytes() { return encode(Hello{}).size(); }

}  // namespace

LeaderHub::LeaderHub(int nodes, int ranks_of_largest_node, bool is_one_host)
    : listener_(listen_on_tcp(is_one_host)),
      max_message_(max_message_bytes(ranks_of_largest_node)),
      news_(static_cast<std::size_t>(nodes)) {
  if (listener_.get() < 0) return;
  point_.of_nodes = random_secret();
  point_.of_hub = random_secret();
  point_.port = port_of(listener_);
  point_.set_addresses(is_one_host ? std::vector<std::string>{"127.0.0.1"} : host_addresses());
}

void LeaderHub::accept_guests(Time now) {
  const auto known = static_cast<std::size_t>(
      std::ranges::count_if(guests_, [](const auto& guest) { return guest->node >= 0; }));
  const std::size_t max_strangers = news_.size() - std::min(known, news_.size()) + kMostUninvited;
  for (std::size_t accepts = 0; accepts < max_strangers; ++accepts) {
    FileDescriptor accepted(
        accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.get() < 0) return;
    guests_.push_back(
        std::make_unique<Guest>(Guest{FrameSocket(std::move(accepted), hello_bytes()), now}));
  }
  drop_oldest_strangers(max_strangers);
}

// Who has come first has had the most time to say who he is.
void LeaderHub::drop_oldest_strangers(std::size_t max_strangers) {
  const auto is_stranger = [](const auto& guest) { return guest->node < 0; };
  const auto strangers = static_cast<std::size_t>(std::ranges::count_if(guests_, is_stranger));
  std::size_t surplus = strangers - std::min(strangers, max_strangers);
  std::erase_if(guests_, [&](const auto& guest) {
    const bool is_dropped = surplus > 0 && is_stranger(guest);
    if (is_dropped) --surplus;
    return is_dropped;
  });
}

void LeaderHub::exchange(const Word& word, Time now, WallTime wall_now) {
  if (!is_open()) return;
  accept_guests(now);
  const std::vector<std::byte> bytes = encode(word);
  for (const auto& guest : guests_) {
    hear(*guest, now, wall_now);
    if (guest->node >= 0) guest->socket.send(bytes);
  }
  std::erase_if(guests_, [&](const auto& guest) {
    return !guest->socket.is_open() || (guest->node < 0 && now - guest->came > kTimeForHello);
  });
  for (News& news : news_) news.is_connected = false;
  for (const auto& guest : guests_)
    if (guest->node >= 0) news_[static_cast<std::size_t>(guest->node)].is_connected = true;
}

void LeaderHub::hear(Guest& guest, Time now, WallTime wall_now) {
  while (const auto frame = guest.socket.receive()) {
    const auto message = decode_link_message(*frame);
    const bool is_senseless =
        !message || std::holds_alternative<Hello>(*message) != (guest.node < 0);
    if (is_senseless) return guest.socket.close();
    take_in(guest, *message, now, wall_now);
  }
}

void LeaderHub::take_in(Guest& guest, const LinkMessage& message, Time now, WallTime wall_now) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    const bool is_known = hello->secret == point_.of_nodes && hello->node > 0 &&
                          static_cast<std::size_t>(hello->node) < news_.size();
    if (!is_known) return guest.socket.close();
    guest.node = hello->node;
    guest.socket.set_max_frame(max_message_);
    guest.socket.send(encode(Welcome{point_.of_hub}));
  } else if (const auto* report = std::get_if<Report>(&message)) {
    News& news = news_[static_cast<std::size_t>(guest.node)];
    news.heard = now;
    news.report = *report;
    for (RankSnapshot& rank : news.report->ranks) shift_times(rank, wall_now - report->sent);
  }
}

void LeaderHub::start_anew(Time now) {
  for (News& news : news_) news.heard = now;
}

}  // namespace horo::observe
