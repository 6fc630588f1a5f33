// Watchdog messages of arbitrary bytes are decoded or rejected. A decoded message has exactly one
// encoding.
#include <cstdlib>

#include "horo/watchdog/link_message.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace horo::observe;
  const auto message = decode_link_message(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  const std::vector<std::byte> encoded = encode(*message);
  const auto again = decode_link_message(encoded);
  if (!again || encode(*again) != encoded) std::abort();
  return 0;
}
