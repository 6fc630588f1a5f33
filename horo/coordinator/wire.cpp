#include "horo/coordinator/wire.h"

#include <algorithm>
#include <cmath>
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

void put(Writer& writer, const Shape& shape) {
  writer.put_count(shape.rank());
  for (std::size_t dimension : shape.dimensions())
    writer.put(static_cast<std::uint64_t>(dimension));
}

Shape get_shape(Reader& reader) {
  std::vector<std::size_t> dimensions(reader.get_count(sizeof(std::uint64_t)));
  for (std::size_t& dimension : dimensions) dimension = reader.get<std::uint64_t>();
  return Shape(std::move(dimensions));
}

void put_ranks(Writer& writer, const std::vector<int>& ranks) {
  writer.put_count(ranks.size());
  for (const int rank : ranks) writer.put(static_cast<std::int32_t>(rank));
}

std::vector<int> get_ranks(Reader& reader) {
  std::vector<int> ranks(reader.get_count(sizeof(std::int32_t)));
  for (int& rank : ranks) rank = reader.get<std::int32_t>();
  return ranks;
}

void put_numbers(Writer& writer, const std::vector<std::uint64_t>& numbers) {
  writer.put_count(numbers.size());
  for (const std::uint64_t number : numbers) writer.put(number);
}

std::vector<std::uint64_t> get_numbers(Reader& reader) {
  std::vector<std::uint64_t> numbers(reader.get_count(sizeof(std::uint64_t)));
  for (std::uint64_t& number : numbers) number = reader.get<std::uint64_t>();
  return numbers;
}

void put(Writer& writer, const Request& request) {
  writer.put(std::string_view(request.name));
  writer.put(request.kind);
  writer.put(request.type);
  writer.put(request.op);
  writer.put(static_cast<std::int32_t>(request.root));
  put(writer, request.shape);
  writer.put_count(request.splits.size());
  for (std::size_t rows : request.splits) writer.put(static_cast<std::uint64_t>(rows));
  writer.put_count(request.members.size());
  for (const Request::Member& member : request.members) {
    writer.put(std::string_view(member.name));
    writer.put(member.type);
    put(writer, member.shape);
  }
  writer.put(request.scale.before);
  writer.put(request.scale.after);
  writer.put(request.lane);
}

double get_factor(Reader& reader) {
  const auto factor = reader.get<double>();
  if (!std::isfinite(factor)) Reader::fail();
  return factor;
}

Request get_request(Reader& reader) {
  Request request;
  request.name = reader.get_text();
  request.kind = reader.get_enum<Kind>(kKindCount);
  request.type = reader.get_enum<DataType>(kDataTypeCount);
  request.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  request.root = reader.get<std::int32_t>();
  request.shape = get_shape(reader);
  request.splits.resize(reader.get_count(sizeof(std::uint64_t)));
  for (std::size_t& rows : request.splits) rows = reader.get<std::uint64_t>();
  const std::size_t members = reader.get_count(1);
  for (std::size_t i = 0; i < members; ++i) {
    Request::Member& member = request.members.emplace_back();
    member.name = reader.get_text();
    member.type = reader.get_enum<DataType>(kDataTypeCount);
    member.shape = get_shape(reader);
  }
  request.scale.before = get_factor(reader);
  request.scale.after = get_factor(reader);
  request.lane = reader.get<std::uint8_t>();
  return request;
}

void put(Writer& writer, const Contribution& contribution) {
  writer.put(contribution.cached);
  writer.put_count(contribution.variants.size());
  for (const Contribution::Variant& variant : contribution.variants) {
    writer.put(static_cast<std::int32_t>(variant.rank));
    put(writer, variant.request);
  }
  writer.put_count(contribution.rows.size());
  for (const Contribution::Rows& rows : contribution.rows) {
    writer.put(static_cast<std::int32_t>(rows.rank));
    put_numbers(writer, rows.rows);
  }
  put_ranks(writer, contribution.absent);
}

Contribution get_contribution(Reader& reader) {
  Contribution contribution;
  contribution.cached = reader.get<CacheId>();
  const std::size_t variants = reader.get_count(1);
  for (std::size_t i = 0; i < variants; ++i) {
    const int rank = reader.get<std::int32_t>();
    contribution.variants.push_back({rank, get_request(reader)});
  }
  if ((contribution.cached == 0) == contribution.variants.empty()) Reader::fail();
  const std::size_t rows = reader.get_count(1);
  for (std::size_t i = 0; i < rows; ++i) {
    const int rank = reader.get<std::int32_t>();
    contribution.rows.push_back({rank, get_numbers(reader)});
  }
  contribution.absent = get_ranks(reader);
  return contribution;
}

void put(Writer& writer, const Departure& departure) {
  writer.put(static_cast<std::int32_t>(departure.rank));
  writer.put(departure.operations);
  writer.put_count(departure.open.size());
  for (const std::string& name : departure.open) writer.put(std::string_view(name));
}

Departure get_departure(Reader& reader) {
  Departure departure;
  departure.rank = reader.get<std::int32_t>();
  departure.operations = reader.get<std::uint64_t>();
  departure.open.resize(reader.get_count(1));
  for (std::string& name : departure.open) name = reader.get_text();
  return departure;
}

void put(Writer& writer, const Orphan& orphan) {
  writer.put(std::string_view(orphan.name));
  writer.put(static_cast<std::int32_t>(orphan.rank));
  writer.put(orphan.operations);
}

Orphan get_orphan(Reader& reader) {
  Orphan orphan;
  orphan.name = reader.get_text();
  orphan.rank = reader.get<std::int32_t>();
  orphan.operations = reader.get<std::uint64_t>();
  return orphan;
}

void put(Writer& writer, const Waiting& waiting) {
  writer.put(std::string_view(waiting.name));
  writer.put(static_cast<std::int64_t>(waiting.age.count()));
  put_ranks(writer, waiting.missing);
}

Waiting get_waiting(Reader& reader) {
  Waiting waiting;
  waiting.name = reader.get_text();
  waiting.age = std::chrono::nanoseconds(reader.get<std::int64_t>());
  waiting.missing = get_ranks(reader);
  return waiting;
}

template <typename T>
void put_all(Writer& writer, const std::vector<T>& items) {
  writer.put_count(items.size());
  for (const T& item : items) put(writer, item);
}

template <typename T>
std::vector<T> get_all(Reader& reader, T (*get)(Reader&)) {
  std::vector<T> items;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) items.push_back(get(reader));
  return items;
}

void put_description(Writer& writer, const Response& response) {
  writer.put(response.kind);
  writer.put(response.type);
  writer.put(response.op);
  writer.put(static_cast<std::int32_t>(response.root));
  writer.put_count(response.tensors.size());
  for (const Response::Tensor& tensor : response.tensors) {
    writer.put(tensor.cached);
    if (tensor.cached != 0) continue;
    writer.put(std::string_view(tensor.name));
    writer.put(static_cast<std::uint8_t>(tensor.request.has_value()));
    if (tensor.request) put(writer, *tensor.request);
  }
  put_numbers(writer, response.rows_of);
  put_ranks(writer, response.absent);
  writer.put(response.error);
  writer.put(std::string_view(response.error_text));
}

void get_description(Reader& reader, Response& response) {
  response.kind = reader.get_enum<Kind>(kKindCount);
  response.type = reader.get_enum<DataType>(kDataTypeCount);
  response.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  response.root = reader.get<std::int32_t>();
  response.tensors.resize(reader.get_count(sizeof(CacheId)));
  for (Response::Tensor& tensor : response.tensors) {
    tensor.cached = reader.get<CacheId>();
    if (tensor.cached != 0) continue;
    tensor.name = reader.get_text();
    if (reader.get_enum<std::uint8_t>(2) != 0) tensor.request = get_request(reader);
  }
  response.rows_of = get_numbers(reader);
  response.absent = get_ranks(reader);
  response.error = reader.get_enum<ErrorKind>(4);
  response.error_text = reader.get_text();
}

void put(Writer& writer, const Response& response) {
  writer.put(static_cast<std::uint8_t>(response.is_cached()));
  if (!response.is_cached()) return put_description(writer, response);
  writer.put_count(response.tensors.size());
  for (const Response::Tensor& tensor : response.tensors) writer.put(tensor.cached);
}

Response get_response(Reader& reader) {
  Response response;
  if (reader.get_enum<std::uint8_t>(2) == 0) {
    get_description(reader, response);
    return response;
  }
  response.tensors.resize(reader.get_count(sizeof(CacheId)));
  for (Response::Tensor& tensor : response.tensors) tensor.cached = reader.get<CacheId>();
  return response;
}

}  // namespace

bool RequestMessage::is_empty() const {
  return cached.empty() && contributions.empty() && joined.empty() && departures.empty() &&
         orphans.empty() && waiting.empty() && failure.empty();
}

bool Response::is_cached() const {
  return error == ErrorKind::kNone && absent.empty() && !tensors.empty() &&
         std::ranges::all_of(tensors, [](const Tensor& tensor) { return tensor.cached != 0; });
}

std::vector<std::byte> encode(const RequestMessage& message) {
  Writer writer;
  writer.put(message.responses_seen);
  writer.put_count(message.cached.size());
  for (CacheId id : message.cached) writer.put(id);
  const bool has_more =
      !(message.contributions.empty() && message.joined.empty() && message.departures.empty() &&
        message.orphans.empty() && message.waiting.empty() && message.failure.empty());
  writer.put(static_cast<std::uint8_t>(has_more));
  if (!has_more) return writer.take();
  put_all(writer, message.contributions);
  put_ranks(writer, message.joined);
  put_all(writer, message.departures);
  put_all(writer, message.orphans);
  put_all(writer, message.waiting);
  writer.put(std::string_view(message.failure));
  return writer.take();
}

RequestMessage decode_requests(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RequestMessage message;
  message.responses_seen = reader.get<std::uint64_t>();
  message.cached.resize(reader.get_count(sizeof(CacheId)));
  for (CacheId& id : message.cached) id = reader.get<CacheId>();
  if (reader.get_enum<std::uint8_t>(2) != 0) {
    message.contributions = get_all(reader, get_contribution);
    message.joined = get_ranks(reader);
    message.departures = get_all(reader, get_departure);
    message.orphans = get_all(reader, get_orphan);
    message.waiting = get_all(reader, get_waiting);
    message.failure = reader.get_text();
  }
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
