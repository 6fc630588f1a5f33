#include "horo/observe/meeting_point.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace horo::observe {

void MeetingPoint::set_addresses(std::span<const std::string> texts) {
  address_count = 0;
  for (const std::string& text : texts) {
    if (address_count == kMaxAddresses || text.size() >= kAddressBytes) continue;
    std::memcpy(addresses[address_count++], text.c_str(), text.size() + 1);
  }
}

std::vector<std::string> MeetingPoint::address_list() const {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < std::min<std::size_t>(address_count, kMaxAddresses); ++i)
    list.emplace_back(addresses[i], strnlen(addresses[i], kAddressBytes));
  return list;
}

Secret random_secret() {
  Secret secret{};
  if (getrandom(secret.data(), sizeof secret, 0) == sizeof secret) return secret;
  std::random_device device;
  for (std::uint64_t& part : secret) part = (std::uint64_t{device()} << 32) | device();
  return secret;
}

}  // namespace horo::observe
