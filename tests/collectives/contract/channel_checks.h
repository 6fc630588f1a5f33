#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "collectives/transport.h"

namespace horo::collectives {

/// Sends messages between all pairs of ranks, also from a rank to itself, of up to 2401 * `scale`
/// bytes. Checks that they arrive in order, and that another channel receives none. Collective.
inline void check_channels(Transport& transport, std::size_t scale) {
  const auto channel = transport.make_message_channel();
  const auto other = transport.make_message_channel();  // must receive nothing
  const int size = channel->size();
  constexpr std::size_t kMessages = 50;
  const auto value = [](int rank, std::size_t i) {
    return static_cast<std::byte>(rank * 16 + static_cast<int>(i) % 16);
  };
  for (std::size_t i = 0; i < kMessages; ++i)
    for (int to = 0; to < size; ++to)
      channel->send(to, std::vector<std::byte>(i * i * scale, value(channel->rank(), i)));
  std::vector<std::size_t> received(static_cast<std::size_t>(size), 0);
  Waiter waiter(transport.wait_policy());
  while (std::accumulate(received.begin(), received.end(), std::size_t{0}) <
         kMessages * received.size()) {
    const auto message = channel->poll();
    if (!message) {
      waiter.pause("for messages");
      continue;
    }
    const std::size_t i = received[static_cast<std::size_t>(message->source)]++;
    ASSERT_EQ(message->bytes.size(), i * i * scale);
    if (i > 0) {
      ASSERT_EQ(message->bytes.front(), value(message->source, i));
      ASSERT_EQ(message->bytes.back(), value(message->source, i));
    }
  }
  EXPECT_FALSE(other->poll().has_value());
}

}  // namespace horo::collectives
