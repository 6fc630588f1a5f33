#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "horo/base/system/file_descriptor.h"

namespace horo {

/// A random number with which one end of a connection authenticates itself to the other end.
using Secret = std::array<std::uint64_t, 2>;
/// Returns a cryptographically random number.
Secret random_secret();

/// The TCP port and the numeric addresses at which a process accepts connections. Trivially
/// copyable, so that ranks can exchange it.
struct TcpAddress {
  static constexpr std::size_t kMaxAddresses = 14;
  static constexpr std::size_t kAddressBytes = 48;

  std::uint16_t port = 0;  ///< 0 if the process accepts no connections
  std::uint16_t address_count = 0;
  char addresses[kMaxAddresses][kAddressBytes] = {};

  /// Stores `texts`, which must be numeric addresses. Skips texts of kAddressBytes or more
  /// characters, and drops those that exceed kMaxAddresses.
  void set_addresses(std::span<const std::string> texts);
  std::vector<std::string> address_list() const;
};
static_assert(std::is_trivially_copyable_v<TcpAddress>);

/// Returns the addresses of this host's active interfaces as text, IPv4 before IPv6. Excludes
/// link-local addresses of IPv6. With `interfaces`, returns the addresses of the interfaces with
/// these names, in their order; throws InvalidArgument if one of them has no address. Without,
/// excludes loopback interfaces, and is empty if the interfaces cannot be listed.
std::vector<std::string> host_addresses(std::span<const std::string> interfaces = {});

/// Creates a non-blocking socket that listens on `port`, or on any free port if `port` is 0. If
/// `loopback_only`, listens on the loopback interface by IPv4. Otherwise listens on all interfaces
/// by IPv6 and IPv4, or by IPv4 alone if that fails. On failure, the result is not open.
FileDescriptor listen_on_tcp(bool loopback_only, std::uint16_t port = 0);
/// Returns the port on which `listener` listens, or 0 on failure.
std::uint16_t port_of(const FileDescriptor& listener);
/// Returns the next connection in the queue of `listener` as a non-blocking socket. The result is
/// not open if the queue is empty.
FileDescriptor accept_connection(const FileDescriptor& listener);

/// Starts to connect a non-blocking socket to `address`, a numeric IPv4 or IPv6 address. On
/// failure, the result is not open and errno has the reason; EINVAL if `address` is invalid.
FileDescriptor start_connection(const std::string& address, std::uint16_t port);
/// Returns the result of start_connection(): 0 if the socket is connected, an errno value if the
/// attempt has failed, or nullopt if it has not finished. Does not wait.
std::optional<int> connection_result(const FileDescriptor& socket);

}  // namespace horo
