#include "launcher/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "horo/base/error.h"

namespace horo {
namespace {

constexpr int kMaxSlots = 65536;

std::optional<int> parse_slots(std::string_view text) {
  int value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || value < 1 || value > kMaxSlots)
    return std::nullopt;
  return value;
}

bool is_ipv6_address(std::string_view text) {
  if (text.starts_with('[')) return true;
  const auto is_address_character = [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.' || c == '%';
  };
  return std::count(text.begin(), text.end(), ':') > 2 &&
         std::all_of(text.begin(), text.end(), is_address_character);
}

void check_host_name(std::string_view name) {
  if (is_ipv6_address(name))
    throw InvalidArgument(
        fmt::format("'{}' is an IPv6 address, which Open MPI's mpirun 4 does not take; use a host "
                    "name (/etc/hosts can give it one)",
                    name));
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_allowed))
    throw InvalidArgument(
        fmt::format("'{}' is not a host name (letters, digits, '.', '-' and '_')", name));
}

Host parse_host(std::string_view text) {
  if (text.empty())
    throw InvalidArgument("a host is missing; write HOST:SLOTS, such as node1:4,node2:4");
  if (is_ipv6_address(text)) check_host_name(text);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    check_host_name(text);
    return {.name = std::string(text), .slots = 1};
  }
  check_host_name(text.substr(0, colon));
  const std::string_view slots_text = text.substr(colon + 1);
  const auto slots = parse_slots(slots_text);
  if (!slots)
    throw InvalidArgument(
        fmt::format("'{}' is not a number of slots in '{}'; write HOST:SLOTS, such as {}:4",
                    slots_text, text, text.substr(0, colon)));
  return {.name = std::string(text.substr(0, colon)), .slots = *slots};
}

bool has_host(std::span<const Host> hosts, std::string_view name) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return host.name == name; });
}

/// The words of a line, which blanks separate.
std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

Host parse_hostfile_line(const std::vector<std::string_view>& words) {
  check_host_name(words[0]);
  Host host{.name = std::string(words[0]), .slots = std::nullopt};
  for (std::string_view word : std::span(words).subspan(1)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    const auto value = parse_slots(word.substr(std::min(equals + 1, word.size())));
    if (key != "slots" && key != "max_slots" && key != "max-slots")
      throw InvalidArgument(
          fmt::format("'{}' is not known; write HOST slots=N, or HOST slots=N max_slots=N", word));
    if (!value)
      throw InvalidArgument(
          fmt::format("'{}' needs a number from 1 to {}, such as {}=4", word, kMaxSlots, key));
    if (key == "slots") host.slots = *value;
  }
  return host;
}

}  // namespace

std::vector<Host> parse_host_list(std::string_view text) {
  std::vector<Host> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    Host host = parse_host(text.substr(begin, comma - begin));
    if (has_host(hosts, host.name))
      throw InvalidArgument(
          fmt::format("'{}' is named twice; name it once, with all its slots, such as {}:4",
                      host.name, host.name));
    hosts.push_back(std::move(host));
    begin = comma + 1;
  }
  return hosts;
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view file_name) {
  std::vector<Host> hosts;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    const auto words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    try {
      Host host = parse_hostfile_line(words);
      if (has_host(hosts, host.name))
        throw InvalidArgument(
            fmt::format("'{}' is named twice; name it once, with all its slots", host.name));
      hosts.push_back(std::move(host));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}:{}: {}", file_name, line_number, error.what()));
    }
  }
  const bool is_empty = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (hosts.empty())
    throw InvalidArgument(fmt::format("{} {}; write one host per line, such as: node1 slots=4",
                                      file_name, is_empty ? "is empty" : "names no host"));
  return hosts;
}

std::optional<int> total_slots(std::span<const Host> hosts) {
  int total = 0;
  for (const Host& host : hosts) {
    if (!host.slots) return std::nullopt;
    total += *host.slots;
  }
  return total;
}

int ranks_on_busiest_host(std::span<const Host> hosts, int ranks, int cores) {
  if (hosts.empty()) return ranks;
  int busiest = 0;
  int remaining = ranks;
  for (const Host& host : hosts) {
    const int taken = std::min(remaining, host.slots.value_or(cores));
    busiest = std::max(busiest, taken);
    remaining -= taken;
  }
  const int host_count = static_cast<int>(hosts.size());
  // mpirun distributes the ranks that exceed the slots evenly.
  return busiest + (remaining + host_count - 1) / host_count;
}

}  // namespace horo
