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

namespace {

// Everything of `record` but its sequence. Released word by word, so that who sees one of them sees
// what its writer did before.
void write_fields(FlightRecord& place, const FlightRecord& record) {
  using Words = std::uint64_t[sizeof(FlightRecord) / sizeof(std::uint64_t)];
  Words words;
  std::memcpy(words, &record, sizeof record);
  auto* target = reinterpret_cast<std::uint64_t*>(&place);
  for (std::size_t i = 1; i < std::size(words); ++i)
    std::atomic_ref<std::uint64_t>(target[i]).store(words[i], std::memory_order_release);
}

}  // namespace

void write_record(FlightRecord& place, const FlightRecord& record, std::uint64_t sequence) {
  publish(place.sequence, std::uint64_t{0});
  write_fields(place, record);
  publish_last(place.sequence, sequence);
}

void write_latest_record(FlightRecord& place, const FlightRecord& record, std::uint64_t sequence) {
  std::uint64_t seen = look_at(place.sequence);
  if ((seen & kBeingWritten) != 0 || seen >= sequence) return;
  if (!std::atomic_ref(place.sequence)
           .compare_exchange_strong(seen, sequence | kBeingWritten, std::memory_order_acq_rel))
    return;
  write_fields(place, record);
  publish_last(place.sequence, sequence);
}

}  // namespace horo::observe
