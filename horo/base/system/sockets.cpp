#include "horo/base/system/sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

#include "horo/base/error.h"

namespace horo {
namespace {

constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kBacklog = 128;

std::string text_of(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(family, address, text, sizeof text) != nullptr ? text : "";
}

// An IPv4 or IPv6 socket address, in the form that system calls expect.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address make_address(const in_addr& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr = host;
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

Address make_address(const in6_addr& host, std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = host;
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = sizeof address;
  return result;
}

std::optional<Address> parse_address(const std::string& text, std::uint16_t port) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return make_address(ipv4, port);
  in6_addr ipv6{};
  if (inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) return make_address(ipv6, port);
  return std::nullopt;
}

// Turns IPV6_V6ONLY off, so that an IPv6 socket also accepts IPv4 connections.
FileDescriptor listen_at(const Address& address) {
  FileDescriptor listener(socket(address.storage.ss_family, SOCK_STREAM | kSocketFlags, 0));
  if (listener.get() < 0) return listener;
  const int no = 0;
  if (address.storage.ss_family == AF_INET6 &&
      setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0)
    return FileDescriptor();
  if (bind(listener.get(), address.get(), address.length) != 0 ||
      listen(listener.get(), kBacklog) != 0)
    return FileDescriptor();
  return listener;
}

struct InterfaceAddress {
  std::string interface;
  std::string text;
  bool is_ipv6 = false;
  bool is_loopback = false;
};

// The addresses of the active interfaces, without link-local addresses of IPv6.
std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const bool is_loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    if (each->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      result.push_back({each->ifa_name, text_of(AF_INET, &address->sin_addr), false, is_loopback});
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (!IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr))
        result.push_back(
            {each->ifa_name, text_of(AF_INET6, &address->sin6_addr), true, is_loopback});
    }
  }
  return result;
}

}  // namespace

void TcpAddress::set_addresses(std::span<const std::string> texts) {
  address_count = 0;
  for (const std::string& text : texts) {
    if (address_count == kMaxAddresses || text.size() >= kAddressBytes) continue;
    std::memcpy(addresses[address_count++], text.c_str(), text.size() + 1);
  }
}

std::vector<std::string> TcpAddress::address_list() const {
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

std::vector<std::string> host_addresses(std::span<const std::string> interfaces) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  std::vector<std::string> texts;
  const auto add = [&](auto&& is_chosen) {
    for (const bool is_ipv6 : {false, true})
      for (const InterfaceAddress& address : all)
        if (address.is_ipv6 == is_ipv6 && is_chosen(address)) texts.push_back(address.text);
  };
  if (interfaces.empty()) add([](const InterfaceAddress& each) { return !each.is_loopback; });
  for (const std::string& name : interfaces) {
    const std::size_t before = texts.size();
    add([&](const InterfaceAddress& each) { return each.interface == name; });
    if (texts.size() > before) continue;
    std::vector<std::string> known;
    for (const InterfaceAddress& address : all)
      if (std::ranges::find(known, address.interface) == known.end())
        known.push_back(address.interface);
    throw InvalidArgument(
        fmt::format("HORO_INTERFACES names '{}', which is no active interface with an address on "
                    "this host; it has: {}",
                    name, fmt::join(known, ", ")));
  }
  return texts;
}

FileDescriptor listen_on_tcp(bool loopback_only, std::uint16_t port) {
  if (!loopback_only) {
    FileDescriptor both = listen_at(make_address(in6addr_any, port));
    if (both.get() >= 0) return both;
  }
  in_addr host{};
  host.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  return listen_at(make_address(host, port));
}

std::uint16_t port_of(const FileDescriptor& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  // sin_port and sin6_port have the same offset in their structures.
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof ipv4);
  return ntohs(ipv4.sin_port);
}

FileDescriptor accept_connection(const FileDescriptor& listener) {
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, kSocketFlags));
}

FileDescriptor start_connection(const std::string& address, std::uint16_t port) {
  const auto parsed = parse_address(address, port);
  if (!parsed) {
    errno = EINVAL;
    return FileDescriptor();
  }
  FileDescriptor made(socket(parsed->storage.ss_family, SOCK_STREAM | kSocketFlags, 0));
  if (!made.is_open() || ::connect(made.get(), parsed->get(), parsed->length) == 0 ||
      errno == EINPROGRESS)
    return made;
  return FileDescriptor();
}

// A non-blocking connect() has finished when poll() reports an event. SO_ERROR then holds the
// result of connect().
std::optional<int> connection_result(const FileDescriptor& socket) {
  pollfd events{socket.get(), POLLOUT, 0};
  if (poll(&events, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace horo
