#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "horo/observe/flight_layout.h"

namespace horo::observe {

/// The writing side of a file's table of names: each text once, numbered by first use. Thread-safe;
/// looking up a name that is there takes no lock.
class NameTable {
 public:
  explicit NameTable(const FlightLayout& layout) : layout_(layout) {}

  /// The number of `name`, of which the first kLongest bytes count. 0 if it is empty, or new and
  /// there is no room.
  NameId id_of(std::string_view name);

  static constexpr std::size_t kLongest = 240;
  /// Held while a name is appended.
  std::mutex& mutex() const { return mutex_; }

 private:
  std::string_view text_of(NameId id) const;
  NameId find(std::string_view name, std::size_t& place) const;
  NameId append(std::string_view name);

  const FlightLayout& layout_;
  mutable std::mutex mutex_;  // held to append
  std::array<std::atomic<NameId>, 2 * kNameEntries> places_{};
};

}  // namespace horo::observe
