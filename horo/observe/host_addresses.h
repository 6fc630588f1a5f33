#pragma once

#include <string>
#include <vector>

namespace horo::observe {

/// The addresses of this host's interfaces that are up, IPv4 before IPv6, as text; without those
/// of the loopback and those valid on one link only.
std::vector<std::string> host_addresses();

}  // namespace horo::observe
