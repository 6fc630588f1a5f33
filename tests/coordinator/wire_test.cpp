#include "horo/coordinator/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

Request random_request(std::mt19937& random) {
  Request request;
  request.name = std::string(random() % 40, static_cast<char>('a' + random() % 26));
  request.kind = static_cast<Kind>(random() % kKindCount);
  request.type = static_cast<DataType>(random() % kDataTypeCount);
  request.op = static_cast<ReduceOp>(random() % kReduceOpCount);
  request.root = static_cast<int>(random() % 1000) - 1;
  std::vector<std::size_t> dimensions(random() % 5);
  for (std::size_t& dimension : dimensions) dimension = random() * std::size_t{1000003};
  request.shape = Shape(dimensions);
  for (unsigned i = random() % 4; i-- > 0;) request.splits.push_back(random());
  return request;
}

RequestMessage random_request_message(std::mt19937& random) {
  RequestMessage message;
  message.responses_seen = random();
  for (unsigned i = random() % 4; i-- > 0;) message.cached.push_back(random());
  for (unsigned i = random() % 4; i-- > 0;) message.requests.push_back(random_request(random));
  if (random() % 4 == 0) message.failure = "rank 3 failed";
  return message;
}

ResponseMessage random_response_message(std::mt19937& random) {
  ResponseMessage message;
  for (unsigned i = random() % 4; i-- > 0;) {
    const Request request = random_request(random);
    Response response;
    response.kind = request.kind;
    response.type = request.type;
    response.op = request.op;
    response.root = request.root;
    for (unsigned k = random() % 4; k-- > 0;)
      response.tensors.push_back(
          random() % 2 ? Response::Tensor{static_cast<CacheId>(random() % 1000 + 1), {}}
                       : Response::Tensor{0, "name"});
    for (unsigned k = random() % 4; k-- > 0;) response.rows_of.push_back(random());
    response.error = static_cast<ErrorKind>(random() % 4);
    response.error_text = request.name;
    message.responses.push_back(std::move(response));
  }
  return message;
}

TEST(Wire, RequestsRoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const RequestMessage message = random_request_message(random);
    const RequestMessage read = decode_requests(encode(message));
    EXPECT_EQ(read.responses_seen, message.responses_seen);
    EXPECT_EQ(read.cached, message.cached);
    EXPECT_EQ(read.requests, message.requests);
    EXPECT_EQ(read.failure, message.failure);
  }
}

TEST(Wire, ResponsesRoundTrip) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const ResponseMessage message = random_response_message(random);
    EXPECT_EQ(decode_responses(encode(message)).responses, message.responses);
  }
}

TEST(Wire, EveryTruncationIsAnError) {
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    const auto requests = encode(random_request_message(random));
    for (std::size_t n = 0; n < requests.size(); ++n)
      EXPECT_THROW((void)decode_requests(std::span(requests).first(n)), CommunicationError);
    const auto responses = encode(random_response_message(random));
    for (std::size_t n = 0; n < responses.size(); ++n)
      EXPECT_THROW((void)decode_responses(std::span(responses).first(n)), CommunicationError);
  }
}

TEST(Wire, FlippedBitsNeverCrash) {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    auto bytes =
        i % 2 ? encode(random_request_message(random)) : encode(random_response_message(random));
    for (unsigned flips = random() % 4 + 1; flips-- > 0;)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << (random() % 8));
    try {
      if (i % 2)
        (void)decode_requests(bytes);
      else
        (void)decode_responses(bytes);
    } catch (const CommunicationError&) {
    }
  }
}

TEST(Wire, TrailingBytesAreAnError) {
  auto bytes = encode(RequestMessage{});
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)decode_requests(bytes), CommunicationError);
}

}  // namespace
}  // namespace horo::coordinator
