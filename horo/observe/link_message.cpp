#include "horo/observe/link_message.h"

#include "horo/observe/byte_fields.h"
#include "horo/observe/snapshot_codec.h"

namespace horo::observe {
namespace {

// First in every message, so that what is no message of this version is refused.
constexpr std::uint32_t kMagic = 0x31'57'4f'48;  // "HOW1"
constexpr std::size_t kMaxReasonBytes = 1000;

enum class Tag : std::uint8_t { kHello, kWelcome, kReport, kWord };
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

void put(FieldWriter& writer, const Word& word) {
  writer.put(Tag::kWord);
  writer.put_text(word.end_reason, kMaxReasonBytes);
  writer.put(static_cast<std::uint8_t>(word.is_last));
  writer.put(static_cast<std::uint8_t>(word.is_paused));
  writer.put(static_cast<std::uint8_t>(word.sees_all));
}

Hello get_hello(FieldReader& reader) {
  Hello hello;
  hello.secret = get_secret(reader);
  hello.node = reader.get<std::int32_t>();
  return hello;
}

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

Word get_word(FieldReader& reader) {
  Word word;
  word.end_reason = reader.get_text();
  word.is_last = reader.get<std::uint8_t>() != 0;
  word.is_paused = reader.get<std::uint8_t>() != 0;
  word.sees_all = reader.get<std::uint8_t>() != 0;
  return word;
}

std::optional<LinkMessage> get_message(FieldReader& reader) {
  switch (reader.get_enum<Tag>(kTagCount)) {
    case Tag::kHello:
      return get_hello(reader);
    case Tag::kWelcome:
      return Welcome{get_secret(reader)};
    case Tag::kReport:
      return get_report(reader);
    case Tag::kWord:
      return get_word(reader);
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

std::optional<LinkMessage> decode_link_message(std::span<const std::byte> bytes) {
  FieldReader reader(bytes);
  if (reader.get<std::uint32_t>() != kMagic) return std::nullopt;
  auto message = get_message(reader);
  if (!reader.is_whole()) return std::nullopt;
  return message;
}

std::size_t max_message_bytes(int ranks_of_node) {
  constexpr std::size_t kRest = 2 * kMaxReasonBytes;
  return kRest +
         static_cast<std::size_t>(ranks_of_node) * (kMaxSnapshotBytes + sizeof(std::uint32_t));
}

}  // namespace horo::observe
