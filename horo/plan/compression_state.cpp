#include "horo/plan/compression_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "horo/base/byte_fields.h"
#include "horo/base/error.h"

namespace horo::plan {
namespace {

// The layout of an encoded state. The header consists of the magic number (8 bytes), the version
// (32 bits), the number of texts (32 bits), the size of the whole state in bytes (64 bits), the
// step (64 bits) and the number of values (64 bits). The texts of the identity follow, each
// preceded by its length (64 bits), and then the values (float32).
constexpr std::string_view kMagic = "HOROCMPR";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes =
    kMagic.size() + 2 * sizeof(std::uint32_t) + 3 * sizeof(std::uint64_t);

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void throw_damaged_state() {
  throw InvalidArgument("the compression state is damaged");
}

void check_identity(std::span<const std::string> saved, std::span<const std::string> expected) {
  const auto [a, b] = std::ranges::mismatch(saved, expected);
  if (a == saved.end() && b == expected.end()) return;
  const auto text = [](auto at, auto end) { return at == end ? "nothing more" : "'" + *at + "'"; };
  throw InvalidArgument(fmt::format("the compression state lists {} where this GradientSync has {}",
                                    text(a, saved.end()), text(b, expected.end())));
}

std::string_view name_of(Compression::Kind kind) {
  switch (kind) {
    case Compression::Kind::kNone:
      return "none";
    case Compression::Kind::kPowerSgd:
      return "powersgd";
    case Compression::Kind::kTopK:
      return "topk";
    case Compression::Kind::kInt8:
      return "int8";
  }
  return "unknown";
}

}  // namespace

std::vector<std::string> describe_compression(const Compression& compression) {
  std::vector<std::string> fields;
  const auto add = [&fields](std::string_view field, const auto& value) {
    fields.push_back(fmt::format("compression.{} = {}", field, value));
  };
  add("kind", name_of(compression.kind));
  if (compression.kind == Compression::Kind::kNone) return fields;
  add("error_feedback", compression.error_feedback);
  add("start_step", compression.start_step);
  if (compression.kind == Compression::Kind::kPowerSgd) {
    add("rank", compression.rank);
    add("min_compression_rate", compression.min_compression_rate);
    add("warm_start", compression.warm_start);
    add("seed", compression.seed);
  } else if (compression.kind == Compression::Kind::kTopK) {
    add("fraction", compression.fraction);
  }
  return fields;
}

std::vector<std::byte> encode_state(const CompressionState& state) {
  std::uint64_t size = kHeaderBytes + state.values.size() * sizeof(float);
  for (const std::string& text : state.identity) size += sizeof(std::uint64_t) + text.size();
  FieldWriter writer;
  writer.put_raw(bytes_of(kMagic));
  writer.put(kVersion);
  writer.put_count(state.identity.size());
  writer.put(size);
  writer.put(state.step);
  writer.put(std::uint64_t{state.values.size()});
  for (const std::string& text : state.identity) {
    writer.put(std::uint64_t{text.size()});
    writer.put_raw(bytes_of(text));
  }
  writer.put_raw(std::as_bytes(std::span(state.values)));
  return writer.take();
}

// The order of the checks determines the error text. The checks of the magic number, the version
// and the size come first. The check of the identity precedes that of the number of values.
// Otherwise a different option or shape would be reported as damage. FieldReader throws if the
// bytes end early.
CompressionState decode_state(std::span<const std::byte> bytes,
                              std::span<const std::string> identity, std::size_t values) {
  FieldReader reader(bytes, throw_damaged_state);
  if (bytes.size() < kHeaderBytes || text_of(reader.get_raw(kMagic.size())) != kMagic)
    throw InvalidArgument(
        fmt::format("these {} bytes are not a compression state; pass the bytes that "
                    "save_compression_state() returned",
                    bytes.size()));
  const auto version = reader.get<std::uint32_t>();
  if (version != kVersion)
    throw InvalidArgument(
        fmt::format("the compression state has format version {}, but this horo reads version {}; "
                    "load it with the version of horo that saved it",
                    version, kVersion));
  const auto texts = reader.get<std::uint32_t>();
  const auto size = reader.get<std::uint64_t>();
  if (size != bytes.size())
    throw InvalidArgument(
        fmt::format("the state was saved as {} bytes, but {} were passed", size, bytes.size()));
  CompressionState state{.step = reader.get<std::uint64_t>()};
  const auto saved_values = reader.get<std::uint64_t>();
  for (std::uint32_t i = 0; i < texts; ++i)
    state.identity.emplace_back(text_of(reader.get_raw(reader.get<std::uint64_t>())));
  check_identity(state.identity, identity);
  if (saved_values != values) throw_damaged_state();
  state.values.resize(values);
  const auto raw = reader.get_raw(values * sizeof(float));
  if (!reader.is_whole()) throw_damaged_state();
  std::ranges::copy(raw, std::as_writable_bytes(std::span(state.values)).begin());
  return state;
}

}  // namespace horo::plan
