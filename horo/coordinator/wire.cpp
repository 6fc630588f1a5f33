#include "horo/coordinator/wire.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

class Writer {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
  }
  void put(std::string_view text) {
    put_count(text.size());
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), raw, raw + text.size());
  }
  void put_count(std::size_t count) { put(static_cast<std::uint32_t>(count)); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  /// An enumerator below `count`.
  template <typename Enum>
  Enum get_enum(int count) {
    const auto value = get<std::uint8_t>();
    if (value >= count) fail();
    return static_cast<Enum>(value);
  }
  std::string get_text() {
    const std::span<const std::byte> raw = take(get<std::uint32_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  /// The length of a list whose items take at least `item_bytes` each.
  std::size_t get_count(std::size_t item_bytes) {
    const auto count = get<std::uint32_t>();
    if (count > rest_.size() / item_bytes) fail();
    return count;
  }
  void expect_end() const {
    if (!rest_.empty()) fail();
  }
  [[noreturn]] static void fail() {
    throw CommunicationError(
        "a control message is damaged; do all ranks run the same version of horo?");
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) fail();
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::span<const std::byte> rest_;
};

void put(Writer& writer, const Request& request) {
  writer.put(std::string_view(request.name));
  writer.put(request.kind);
  writer.put(request.type);
  writer.put(request.op);
  writer.put(static_cast<std::int32_t>(request.root));
  writer.put_count(request.shape.rank());
  for (std::size_t dimension : request.shape.dimensions())
    writer.put(static_cast<std::uint64_t>(dimension));
  writer.put_count(request.splits.size());
  for (std::size_t rows : request.splits) writer.put(static_cast<std::uint64_t>(rows));
}

Request get_request(Reader& reader) {
  Request request;
  request.name = reader.get_text();
  request.kind = reader.get_enum<Kind>(kKindCount);
  request.type = reader.get_enum<DataType>(kDataTypeCount);
  request.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  request.root = reader.get<std::int32_t>();
  std::vector<std::size_t> dimensions(reader.get_count(sizeof(std::uint64_t)));
  for (std::size_t& dimension : dimensions) dimension = reader.get<std::uint64_t>();
  request.shape = Shape(std::move(dimensions));
  request.splits.resize(reader.get_count(sizeof(std::uint64_t)));
  for (std::size_t& rows : request.splits) rows = reader.get<std::uint64_t>();
  return request;
}

void put(Writer& writer, const Response& response) {
  writer.put(response.kind);
  writer.put(response.type);
  writer.put(response.op);
  writer.put(static_cast<std::int32_t>(response.root));
  writer.put_count(response.tensors.size());
  for (const Response::Tensor& tensor : response.tensors) {
    writer.put(tensor.cached);
    if (tensor.cached == 0) writer.put(std::string_view(tensor.name));
  }
  writer.put_count(response.rows_of.size());
  for (std::uint64_t rows : response.rows_of) writer.put(rows);
  writer.put(response.error);
  writer.put(std::string_view(response.error_text));
}

Response get_response(Reader& reader) {
  Response response;
  response.kind = reader.get_enum<Kind>(kKindCount);
  response.type = reader.get_enum<DataType>(kDataTypeCount);
  response.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  response.root = reader.get<std::int32_t>();
  response.tensors.resize(reader.get_count(sizeof(CacheId)));
  for (Response::Tensor& tensor : response.tensors) {
    tensor.cached = reader.get<CacheId>();
    if (tensor.cached == 0) tensor.name = reader.get_text();
  }
  response.rows_of.resize(reader.get_count(sizeof(std::uint64_t)));
  for (std::uint64_t& rows : response.rows_of) rows = reader.get<std::uint64_t>();
  response.error = reader.get_enum<ErrorKind>(4);
  response.error_text = reader.get_text();
  return response;
}

}  // namespace

std::vector<std::byte> encode(const RequestMessage& message) {
  Writer writer;
  writer.put(message.responses_seen);
  writer.put_count(message.cached.size());
  for (CacheId id : message.cached) writer.put(id);
  writer.put_count(message.requests.size());
  for (const Request& request : message.requests) put(writer, request);
  writer.put(std::string_view(message.failure));
  return writer.take();
}

RequestMessage decode_requests(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RequestMessage message;
  message.responses_seen = reader.get<std::uint64_t>();
  message.cached.resize(reader.get_count(sizeof(CacheId)));
  for (CacheId& id : message.cached) id = reader.get<CacheId>();
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) message.requests.push_back(get_request(reader));
  message.failure = reader.get_text();
  reader.expect_end();
  return message;
}

std::vector<std::byte> encode(const ResponseMessage& message) {
  Writer writer;
  writer.put_count(message.responses.size());
  for (const Response& response : message.responses) put(writer, response);
  return writer.take();
}

ResponseMessage decode_responses(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  ResponseMessage message;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) message.responses.push_back(get_response(reader));
  reader.expect_end();
  return message;
}

std::vector<std::byte> encode(std::span<const Request> requests) {
  Writer writer;
  writer.put_count(requests.size());
  for (const Request& request : requests) put(writer, request);
  return writer.take();
}

std::vector<Request> decode_request_list(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::vector<Request> requests;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(get_request(reader));
  reader.expect_end();
  return requests;
}

}  // namespace horo::coordinator
