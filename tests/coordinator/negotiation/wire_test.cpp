#include "horo/coordinator/negotiation/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
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
  for (unsigned i = random() % 3; i-- > 0;)
    request.members.push_back({"m" + std::to_string(i), DataType::kInt8, Shape{random() % 9, 2}});
  constexpr double kFactors[] = {1, 0, -0.0, -1.5, 1e-30, 1.0 / 3};
  request.scale = {kFactors[random() % 6], kFactors[random() % 6]};
  request.device_queue = static_cast<std::uint8_t>(random());
  return request;
}

Contribution random_contribution(std::mt19937& random) {
  Contribution contribution;
  contribution.cached = random() % 2 * random();
  if (contribution.cached == 0)
    for (unsigned i = random() % 2 + 1; i-- > 0;)
      contribution.variants.push_back({static_cast<int>(random() % 9), random_request(random)});
  for (unsigned i = random() % 3; i-- > 0;)
    contribution.rows.push_back({static_cast<int>(i), {random(), random()}});
  for (unsigned i = random() % 3; i-- > 0;) contribution.absent.push_back(static_cast<int>(i));
  return contribution;
}

bool same(const Contribution& a, const Contribution& b) {
  return a.cached == b.cached && a.variants == b.variants && a.rows == b.rows &&
         a.absent == b.absent;
}

RequestMessage random_request_message(std::mt19937& random) {
  RequestMessage message;
  message.responses_seen = random();
  for (unsigned i = random() % 4; i-- > 0;) message.cached.push_back(random());
  for (unsigned i = random() % 4; i-- > 0;)
    message.contributions.push_back(random_contribution(random));
  for (unsigned i = random() % 3; i-- > 0;) message.joined.push_back(static_cast<int>(i));
  for (unsigned i = random() % 3; i-- > 0;)
    message.shutdowns.push_back({static_cast<int>(i), random(), {"a", "bc"}});
  for (unsigned i = random() % 3; i-- > 0;)
    message.unsatisfiable.push_back({"lost", static_cast<int>(i), random()});
  for (unsigned i = random() % 3; i-- > 0;)
    message.waiting.push_back({"late", std::chrono::nanoseconds(random()), {1, 5}});
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
                       : Response::Tensor{0, "name", random_request(random)});
    for (unsigned k = random() % 4; k-- > 0;) response.rows_of.push_back(random());
    response.error = static_cast<ErrorKind>(random() % 4);
    response.error_text = request.name;
    for (unsigned k = random() % 3; k-- > 0;) response.absent.push_back(static_cast<int>(k));
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
    EXPECT_TRUE(std::ranges::equal(read.contributions, message.contributions, same));
    EXPECT_EQ(read.joined, message.joined);
    EXPECT_EQ(read.shutdowns, message.shutdowns);
    EXPECT_EQ(read.unsatisfiable, message.unsatisfiable);
    EXPECT_EQ(read.waiting, message.waiting);
    EXPECT_EQ(read.failure, message.failure);
  }
}

TEST(Wire, ResponsesRoundTrip) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const ResponseMessage message = random_response_message(random);
    const ResponseMessage read = decode_responses(encode(message));
    ASSERT_EQ(read.responses.size(), message.responses.size());
    for (std::size_t k = 0; k < read.responses.size(); ++k) {
      EXPECT_EQ(read.responses[k].tensors, message.responses[k].tensors);
      // The cache contains the other fields of cached responses.
      if (!message.responses[k].is_cached()) {
        EXPECT_EQ(read.responses[k], message.responses[k]);
      }
    }
  }
}

TEST(Wire, CachedOperationTakesFourBytes) {
  RequestMessage requests;
  requests.cached = {1, 2, 3};
  const std::size_t before = encode(requests).size();
  requests.cached.push_back(4);
  EXPECT_EQ(encode(requests).size(), before + 4);
  EXPECT_LE(before, 32u);

  Response response;
  response.tensors = {{1, {}}, {2, {}}};
  const std::size_t bytes = encode(ResponseMessage{{response}}).size();
  response.tensors.push_back({3, {}});
  EXPECT_EQ(encode(ResponseMessage{{response}}).size(), bytes + 4);
  EXPECT_LE(bytes, 32u);
}

TEST(Wire, RejectsEveryTruncation) {
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
  for (int i = 0; i < 100000; ++i) {
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

TEST(Wire, KeepsBitsOfScaleFactorsAndRejectsInfinity) {
  Request request{"x"};
  for (const double factor : {1.0 / 3, 1e-300, -0.0}) {
    request.scale = {factor, -factor};
    EXPECT_EQ(decode_request_list(encode(std::vector{request})), std::vector{request});
    Request other = request;
    other.scale.after = factor;
    EXPECT_NE(decode_request_list(encode(std::vector{other})), std::vector{request});
  }
  for (const double factor :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    request.scale = {1, factor};
    EXPECT_THROW((void)decode_request_list(encode(std::vector{request})), CommunicationError);
  }
}

std::vector<std::byte> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  const auto* raw = reinterpret_cast<const std::byte*>(content.data());
  return {raw, raw + content.size()};
}

template <typename Decode>
void expect_encoding(std::span<const std::byte> bytes, Decode decode) {
  const std::vector<std::byte> again = encode(decode(bytes));
  EXPECT_TRUE(std::ranges::equal(again, bytes));
}

// Files that begin with "bad" are there for what must be refused.
TEST(Wire, FuzzingCorpusIsValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HORO_WIRE_CORPUS)) {
    SCOPED_TRACE(entry.path().filename());
    const std::vector<std::byte> content = read(entry.path());
    ASSERT_FALSE(content.empty());
    const auto bytes = std::span(content).subspan(1);
    const bool is_bad = entry.path().filename().string().starts_with("bad");
    const auto check = [&](auto decode) {
      if (is_bad)
        EXPECT_THROW((void)decode(bytes), CommunicationError);
      else
        EXPECT_NO_THROW(expect_encoding(bytes, decode));
    };
    if (content[0] == std::byte{0})
      check(decode_requests);
    else if (content[0] == std::byte{1})
      check(decode_responses);
    else
      check(decode_request_list);
    ++files;
  }
  EXPECT_GE(files, 10);
}

TEST(Wire, RejectsTrailingBytes) {
  auto bytes = encode(RequestMessage{});
  bytes.push_back(std::byte{0});
  EXPECT_THROW((void)decode_requests(bytes), CommunicationError);
}

}  // namespace
}  // namespace horo::coordinator
