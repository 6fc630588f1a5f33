#include "horo/watchdog/link_message.h"

#include <algorithm>
#include <cstring>

#include "horo/base/byte_fields.h"
#include "horo/flight_recorder/snapshot_codec.h"

namespace horo::observe {
namespace {

// The first field of every message. Messages with another value are rejected, such as those of
// other programs.
constexpr std::uint32_t kMagic = 0x32'57'4f'48;  // "HOW2"
constexpr std::size_t kMaxReasonBytes = 1000;

enum class Tag : std::uint8_t { kHello, kWelcome, kReport, kHubStatus };
constexpr int kTagCount = 4;

void put(FieldWriter& writer, const Secret& secret) {
  for (std::uint64_t part : secret) writer.put(part);
}

Secret get_secret(FieldReader& reader) {
  Secret secret;
  for (std::uint64_t& part : secret) part = reader.get<std::uint64_t>();
  return secret;
}

void put(FieldWriter& writer, const Hello& hello) {
  writer.put(Tag::kHello);
  put(writer, hello.secret);
  writer.put(hello.node);
}

void put(FieldWriter& writer, const Welcome& welcome) {
  writer.put(Tag::kWelcome);
  put(writer, welcome.secret);
}

void put(FieldWriter& writer, const Report& report) {
  writer.put(Tag::kReport);
  writer.put(report.sent);
  writer.put_text(report.end_reason, kMaxReasonBytes);
  writer.put(static_cast<std::uint32_t>(report.ranks.size()));
  for (const RankSnapshot& rank : report.ranks) writer.put_bytes(encode(rank));
}

void put(FieldWriter& writer, const HubStatus& status) {
  writer.put(Tag::kHubStatus);
  writer.put_text(status.end_reason, kMaxReasonBytes);
  writer.put(static_cast<std::uint8_t>(status.is_shutting_down));
  writer.put(static_cast<std::uint8_t>(status.is_paused));
  writer.put(static_cast<std::uint8_t>(status.sees_all));
}

Hello get_hello(FieldReader& reader) {
  Hello hello;
  hello.secret = get_secret(reader);
  hello.node = reader.get<std::int32_t>();
  return hello;
}

// get_count() rejects a count for which too few bytes remain, so damaged bytes cannot cause a large
// allocation.
std::optional<Report> get_report(FieldReader& reader) {
  Report report;
  report.sent = reader.get<WallTime>();
  report.end_reason = reader.get_text();
  const std::size_t count = reader.get_count(sizeof(std::uint32_t));
  for (std::size_t i = 0; i < count; ++i) {
    auto rank = decode_snapshot(reader.get_bytes());
    if (!rank) return std::nullopt;
    report.ranks.push_back(std::move(*rank));
  }
  return report;
}

HubStatus get_hub_status(FieldReader& reader) {
  HubStatus status;
  status.end_reason = reader.get_text();
  status.is_shutting_down = reader.get<std::uint8_t>() != 0;
  status.is_paused = reader.get<std::uint8_t>() != 0;
  status.sees_all = reader.get<std::uint8_t>() != 0;
  return status;
}

std::optional<LinkMessage> get_message(FieldReader& reader) {
  switch (reader.get_enum<Tag>(kTagCount)) {
    case Tag::kHello:
      return get_hello(reader);
    case Tag::kWelcome:
      return Welcome{get_secret(reader)};
    case Tag::kReport:
      return get_report(reader);
    case Tag::kHubStatus:
      return get_hub_status(reader);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> encode(const LinkMessage& message) {
  FieldWriter writer;
  writer.put(kMagic);
  std::visit([&](const auto& content) { put(writer, content); }, message);
  return writer.take();
}

// The bytes may come from any program that connects to the port. After a missing or invalid field,
// is_whole() returns false, so one check at the end covers all fields.
std::optional<LinkMessage> decode_link_message(std::span<const std::byte> bytes) {
  FieldReader reader(bytes);
  if (reader.get<std::uint32_t>() != kMagic) return std::nullopt;
  auto message = get_message(reader);
  if (!reader.is_whole()) return std::nullopt;
  return message;
}

// FrameSocket closes a connection on which a longer frame arrives, so every message must fit.
std::size_t max_message_bytes(int ranks_of_node) {
  constexpr std::size_t kRest = 2 * kMaxReasonBytes;
  return kRest +
         static_cast<std::size_t>(ranks_of_node) * (kMaxSnapshotBytes + sizeof(std::uint32_t));
}

}  // namespace horo::observe
