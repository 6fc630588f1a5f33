#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "horo/observe/flight_file.h"

namespace horo::observe {

/// How many entries a recorder's tables have: together about 256 KiB.
inline constexpr std::uint32_t kNameEntries = 5120;
inline constexpr std::uint32_t kTextBytes = 96 * 1024;
inline constexpr std::uint32_t kOpenEntries = 256;
inline constexpr std::uint32_t kPlanEntries = 32;
inline constexpr std::uint32_t kGradientEntries = 4096;
inline constexpr std::uint32_t kRingEntries = 1024;

/// The part of an identity that says where the tables lie; the rest is zero.
FlightIdentity place_flight_tables();

/// A recorder's tables in its memory.
struct FlightLayout {
  FlightHeader* header = nullptr;
  std::span<FlightName> names;
  std::span<char> texts;
  std::span<FlightRecord> open;
  std::span<FlightPlanEntry> plans;
  std::span<FlightGradient> gradients;
  std::span<FlightMark> marks;
  std::span<FlightRecord> ring;

  /// Lays the tables that `identity` places into `memory`, and writes the header.
  FlightLayout(std::span<std::byte> memory, const FlightIdentity& identity);
};

/// Writes and reads a field that other threads, or processes, look at meanwhile.
template <typename T>
void publish(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
/// The same, after everything that this thread has written before.
template <typename T>
void publish_last(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_release);
}
template <typename T>
T look_at(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

/// Writes `record` with `sequence` so that whoever reads meanwhile can see that it is torn.
void write_record(FlightRecord& place, const FlightRecord& record, std::uint64_t sequence);
/// The same for a place that several threads may come to: the latest record stays, and one that
/// comes while another is being written is lost.
void write_latest_record(FlightRecord& place, const FlightRecord& record, std::uint64_t sequence);

}  // namespace horo::observe
