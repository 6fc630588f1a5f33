#include "horo/coordinator/compression_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t texts;  // of the identity; each is its length (8 bytes) and its characters
  std::uint64_t bytes;  // of the whole state
  std::uint64_t step;
  std::uint64_t values;
};
constexpr char kMagic[8] = {'H', 'O', 'R', 'O', 'C', 'M', 'P', 'R'};
constexpr std::uint32_t kVersion = 1;

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  void read(void* to, std::size_t bytes) {
    if (bytes > rest_.size()) throw InvalidArgument("the state is damaged");
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  std::string read_text() {
    std::uint64_t length = 0;
    read(&length, sizeof length);
    std::string text(std::min<std::uint64_t>(length, rest_.size()), '\0');
    read(text.data(), length);
    return text;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

Header read_header(std::span<const std::byte> bytes) {
  Header header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    throw InvalidArgument(
        fmt::format("these {} bytes are no compression state; give what save_compression_state() "
                    "returned",
                    bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion)
    throw InvalidArgument(fmt::format("the state has version {}, this horo reads version {}",
                                      header.version, kVersion));
  if (header.bytes != bytes.size())
    throw InvalidArgument(
        fmt::format("the state was saved as {} bytes, these are {}", header.bytes, bytes.size()));
  return header;
}

void check_identity(std::span<const std::string> saved, std::span<const std::string> expected) {
  const auto [a, b] = std::ranges::mismatch(saved, expected);
  if (a == saved.end() && b == expected.end()) return;
  const auto text = [](auto at, auto end) { return at == end ? "nothing more" : "'" + *at + "'"; };
  throw InvalidArgument(fmt::format("the state is of {}, where this GradientSync has {}",
                                    text(a, saved.end()), text(b, expected.end())));
}

// Returns the place after it.
std::byte* put(std::byte* to, const void* data, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, data, bytes);
  return to + bytes;
}

}  // namespace

std::vector<std::byte> encode_state(const CompressionState& state) {
  Header header{.magic = {},
                .version = kVersion,
                .texts = static_cast<std::uint32_t>(state.identity.size()),
                .bytes = sizeof header + state.values.size() * sizeof(float),
                .step = state.step,
                .values = state.values.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  for (const std::string& text : state.identity)
    header.bytes += sizeof(std::uint64_t) + text.size();
  std::vector<std::byte> bytes(header.bytes);
  std::byte* at = put(bytes.data(), &header, sizeof header);
  for (const std::string& text : state.identity) {
    const std::uint64_t length = text.size();
    at = put(at, &length, sizeof length);
    at = put(at, text.data(), text.size());
  }
  put(at, state.values.data(), state.values.size() * sizeof(float));
  return bytes;
}

CompressionState decode_state(std::span<const std::byte> bytes,
                              std::span<const std::string> identity, std::size_t values) {
  const Header header = read_header(bytes);
  Reader reader(bytes.subspan(sizeof header));
  CompressionState state{.step = header.step};
  for (std::uint32_t i = 0; i < header.texts; ++i) state.identity.push_back(reader.read_text());
  check_identity(state.identity, identity);
  if (header.values != values || reader.left() != header.values * sizeof(float))
    throw InvalidArgument("the state is damaged");
  state.values.resize(header.values);
  reader.read(state.values.data(), reader.left());
  return state;
}

}  // namespace horo::coordinator
