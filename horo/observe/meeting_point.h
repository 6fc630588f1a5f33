#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "horo/observe/link_message.h"

namespace horo::observe {

/// Where the hub is to be found, and what shows that one has found it. Plain bytes, so that it can
/// be broadcast.
struct MeetingPoint {
  static constexpr std::size_t kMaxAddresses = 14;
  static constexpr std::size_t kAddressBytes = 48;

  Secret of_nodes{};       ///< what a node shows to the hub
  Secret of_hub{};         ///< what the hub shows to a node
  std::uint16_t port = 0;  ///< 0: there is no hub
  std::uint16_t address_count = 0;
  char addresses[kMaxAddresses][kAddressBytes] = {};

  /// Numbers as text. At most kMaxAddresses are kept.
  void set_addresses(std::span<const std::string> texts);
  std::vector<std::string> address_list() const;
};
static_assert(std::is_trivially_copyable_v<MeetingPoint>);

/// A number that cannot be guessed.
Secret random_secret();

}  // namespace horo::observe
