// Control messages of arbitrary bytes are decoded, or rejected with CommunicationError. A decoded
// message has exactly one encoding. The first byte selects the kind of message.
#include <cstdlib>

#include "horo/base/error.h"
#include "horo/coordinator/negotiation/wire.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace horo::coordinator;

template <typename Message, typename Decode>
void check(std::span<const std::byte> bytes, Decode decode) {
  Message message;
  try {
    message = decode(bytes);
  } catch (const horo::CommunicationError&) {
    return;
  }
  const std::vector<std::byte> encoded = encode(message);
  if (encode(decode(encoded)) != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 3) {
    case 0:
      check<RequestMessage>(bytes, decode_requests);
      break;
    case 1:
      check<ResponseMessage>(bytes, decode_responses);
      break;
    default:
      check<std::vector<Request>>(bytes, decode_request_list);
  }
  return 0;
}
