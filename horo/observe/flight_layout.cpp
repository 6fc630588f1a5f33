#include "horo/observe/flight_layout.h"

#include <bit>
#include <cstring>

#include "horo/base/hash.h"

namespace horo::observe {
namespace {

constexpr std::uint32_t kPage = 4096;
static_assert(sizeof(FlightHeader) <= kPage);

template <typename T>
FlightTable place(std::uint64_t& end, std::uint32_t count) {
  const FlightTable table{static_cast<std::uint32_t>(end), count};
  end = (end + sizeof(T) * count + 63) / 64 * 64;
  return table;
}

template <typename T>
std::span<T> lay(std::span<std::byte> memory, const FlightTable& table) {
  return {reinterpret_cast<T*>(memory.data() + table.offset), table.count};
}

}  // namespace

FlightIdentity place_flight_tables() {
  FlightIdentity identity{};
  identity.version = kFlightVersion;
  identity.header_bytes = sizeof(FlightHeader);
  std::uint64_t end = kPage;
  identity.names = place<FlightName>(end, kNameEntries);
  identity.texts = place<char>(end, kTextBytes);
  identity.open = place<FlightRecord>(end, kOpenEntries);
  identity.plans = place<FlightPlanEntry>(end, kPlanEntries);
  identity.gradients = place<FlightGradient>(end, kGradientEntries);
  identity.marks = place<FlightMark>(end, kGradientEntries);
  identity.ring = place<FlightRecord>(end, kRingEntries);
  identity.file_bytes = end;
  return identity;
}

FlightLayout::FlightLayout(std::span<std::byte> memory, const FlightIdentity& identity)
    : header(reinterpret_cast<FlightHeader*>(memory.data())),
      names(lay<FlightName>(memory, identity.names)),
      texts(lay<char>(memory, identity.texts)),
      open(lay<FlightRecord>(memory, identity.open)),
      plans(lay<FlightPlanEntry>(memory, identity.plans)),
      gradients(lay<FlightGradient>(memory, identity.gradients)),
      marks(lay<FlightMark>(memory, identity.marks)),
      ring(lay<FlightRecord>(memory, identity.ring)) {
  header->identity = identity;
  header->checksum = Hash().add_bytes(&header->identity, sizeof(FlightIdentity)).value();
  std::memcpy(header->magic, kFlightMagic, sizeof kFlightMagic);
}

void write_record(FlightRecord& place, const FlightRecord& record, std::uint64_t sequence) {
  using Words = std::uint64_t[sizeof(FlightRecord) / sizeof(std::uint64_t)];
  Words words;
  std::memcpy(words, &record, sizeof record);
  auto* target = reinterpret_cast<std::uint64_t*>(&place);
  std::atomic_ref<std::uint64_t> first(place.sequence);
  first.store(0, std::memory_order_relaxed);
  for (std::size_t i = 1; i < std::size(words); ++i)
    std::atomic_ref<std::uint64_t>(target[i]).store(words[i], std::memory_order_release);
  first.store(sequence, std::memory_order_release);
}

}  // namespace horo::observe
