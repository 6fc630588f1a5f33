#include "horo/coordinator/negotiation/wire.h"

#include <algorithm>
#include <cmath>

#include "horo/base/byte_fields.h"
#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

void throw_damaged() {
  throw CommunicationError(
      "a control message is malformed; all ranks must run the same version of horo");
}

void expect_end(FieldReader& reader) {
  if (!reader.is_whole()) reader.fail();
}

void put(FieldWriter& writer, const Shape& shape) {
  writer.put_count(shape.rank());
  for (std::size_t dimension : shape.dimensions())
    writer.put(static_cast<std::uint64_t>(dimension));
}

Shape get_shape(FieldReader& reader) {
  std::vector<std::size_t> dimensions(reader.get_count(sizeof(std::uint64_t)));
  for (std::size_t& dimension : dimensions) dimension = reader.get<std::uint64_t>();
  return Shape(std::move(dimensions));
}

void put_ranks(FieldWriter& writer, const std::vector<int>& ranks) {
  writer.put_count(ranks.size());
  for (const int rank : ranks) writer.put(static_cast<std::int32_t>(rank));
}

std::vector<int> get_ranks(FieldReader& reader) {
  std::vector<int> ranks(reader.get_count(sizeof(std::int32_t)));
  for (int& rank : ranks) rank = reader.get<std::int32_t>();
  return ranks;
}

void put_numbers(FieldWriter& writer, const std::vector<std::uint64_t>& numbers) {
  writer.put_count(numbers.size());
  for (const std::uint64_t number : numbers) writer.put(number);
}

std::vector<std::uint64_t> get_numbers(FieldReader& reader) {
  std::vector<std::uint64_t> numbers(reader.get_count(sizeof(std::uint64_t)));
  for (std::uint64_t& number : numbers) number = reader.get<std::uint64_t>();
  return numbers;
}

void put(FieldWriter& writer, const Request& request) {
  writer.put_text(request.name);
  writer.put(request.kind);
  writer.put(request.type);
  writer.put(request.op);
  writer.put(static_cast<std::int32_t>(request.root));
  put(writer, request.shape);
  writer.put_count(request.splits.size());
  for (std::size_t rows : request.splits) writer.put(static_cast<std::uint64_t>(rows));
  writer.put_count(request.members.size());
  for (const Request::Member& member : request.members) {
    writer.put_text(member.name);
    writer.put(member.type);
    put(writer, member.shape);
  }
  writer.put(request.scale.before);
  writer.put(request.scale.after);
  writer.put(request.device_queue);
}

double get_factor(FieldReader& reader) {
  const auto factor = reader.get<double>();
  if (!std::isfinite(factor)) reader.fail();
  return factor;
}

Request get_request(FieldReader& reader) {
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
  request.device_queue = reader.get<std::uint8_t>();
  return request;
}

// A contribution has either a cache number or variants.
void put(FieldWriter& writer, const Contribution& contribution) {
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

Contribution get_contribution(FieldReader& reader) {
  Contribution contribution;
  contribution.cached = reader.get<CacheId>();
  const std::size_t variants = reader.get_count(1);
  for (std::size_t i = 0; i < variants; ++i) {
    const int rank = reader.get<std::int32_t>();
    contribution.variants.push_back({rank, get_request(reader)});
  }
  if ((contribution.cached == 0) == contribution.variants.empty()) reader.fail();
  const std::size_t rows = reader.get_count(1);
  for (std::size_t i = 0; i < rows; ++i) {
    const int rank = reader.get<std::int32_t>();
    contribution.rows.push_back({rank, get_numbers(reader)});
  }
  contribution.absent = get_ranks(reader);
  return contribution;
}

void put(FieldWriter& writer, const RankShutdown& shutdown) {
  writer.put(static_cast<std::int32_t>(shutdown.rank));
  writer.put(shutdown.operations);
  writer.put_count(shutdown.open.size());
  for (const std::string& name : shutdown.open) writer.put_text(name);
}

RankShutdown get_shutdown(FieldReader& reader) {
  RankShutdown shutdown;
  shutdown.rank = reader.get<std::int32_t>();
  shutdown.operations = reader.get<std::uint64_t>();
  shutdown.open.resize(reader.get_count(1));
  for (std::string& name : shutdown.open) name = reader.get_text();
  return shutdown;
}

void put(FieldWriter& writer, const UnsatisfiableOperation& blocked) {
  writer.put_text(blocked.name);
  writer.put(static_cast<std::int32_t>(blocked.rank));
  writer.put(blocked.operations);
}

UnsatisfiableOperation get_unsatisfiable(FieldReader& reader) {
  UnsatisfiableOperation blocked;
  blocked.name = reader.get_text();
  blocked.rank = reader.get<std::int32_t>();
  blocked.operations = reader.get<std::uint64_t>();
  return blocked;
}

void put(FieldWriter& writer, const Waiting& waiting) {
  writer.put_text(waiting.name);
  writer.put(static_cast<std::int64_t>(waiting.age.count()));
  put_ranks(writer, waiting.missing);
}

Waiting get_waiting(FieldReader& reader) {
  Waiting waiting;
  waiting.name = reader.get_text();
  waiting.age = std::chrono::nanoseconds(reader.get<std::int64_t>());
  waiting.missing = get_ranks(reader);
  return waiting;
}

template <typename T>
void put_all(FieldWriter& writer, const std::vector<T>& items) {
  writer.put_count(items.size());
  for (const T& item : items) put(writer, item);
}

template <typename T>
std::vector<T> get_all(FieldReader& reader, T (*get)(FieldReader&)) {
  std::vector<T> items;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) items.push_back(get(reader));
  return items;
}

void put_description(FieldWriter& writer, const Response& response) {
  writer.put(response.kind);
  writer.put(response.type);
  writer.put(response.op);
  writer.put(static_cast<std::int32_t>(response.root));
  writer.put_count(response.tensors.size());
  for (const Response::Tensor& tensor : response.tensors) {
    writer.put(tensor.cached);
    if (tensor.cached != 0) continue;
    writer.put_text(tensor.name);
    writer.put(tensor.request.has_value());
    if (tensor.request) put(writer, *tensor.request);
  }
  put_numbers(writer, response.rows_of);
  put_ranks(writer, response.absent);
  writer.put(response.error);
  writer.put_text(response.error_text);
}

void get_description(FieldReader& reader, Response& response) {
  response.kind = reader.get_enum<Kind>(kKindCount);
  response.type = reader.get_enum<DataType>(kDataTypeCount);
  response.op = reader.get_enum<ReduceOp>(kReduceOpCount);
  response.root = reader.get<std::int32_t>();
  response.tensors.resize(reader.get_count(sizeof(CacheId)));
  for (Response::Tensor& tensor : response.tensors) {
    tensor.cached = reader.get<CacheId>();
    if (tensor.cached != 0) continue;
    tensor.name = reader.get_text();
    if (reader.get_flag()) tensor.request = get_request(reader);
  }
  response.rows_of = get_numbers(reader);
  response.absent = get_ranks(reader);
  response.error = reader.get_enum<ErrorKind>(4);
  response.error_text = reader.get_text();
}

// Writes a response with is_cached() as a flag, a count, and four bytes for each tensor.
void put(FieldWriter& writer, const Response& response) {
  writer.put(response.is_cached());
  if (!response.is_cached()) return put_description(writer, response);
  writer.put_count(response.tensors.size());
  for (const Response::Tensor& tensor : response.tensors) writer.put(tensor.cached);
}

Response get_response(FieldReader& reader) {
  Response response;
  if (!reader.get_flag()) {
    get_description(reader, response);
    return response;
  }
  response.tensors.resize(reader.get_count(sizeof(CacheId)));
  for (Response::Tensor& tensor : response.tensors) tensor.cached = reader.get<CacheId>();
  return response;
}

}  // namespace

bool RequestMessage::is_empty() const {
  return cached.empty() && contributions.empty() && joined.empty() && shutdowns.empty() &&
         unsatisfiable.empty() && waiting.empty() && failure.empty();
}

bool Response::is_cached() const {
  return error == ErrorKind::kNone && absent.empty() && !tensors.empty() &&
         std::ranges::all_of(tensors, [](const Tensor& tensor) { return tensor.cached != 0; });
}

// A message that contains only cached operations ends after the flag `has_more`. This is the usual
// message of a training loop.
std::vector<std::byte> encode(const RequestMessage& message) {
  FieldWriter writer;
  writer.put(message.responses_seen);
  writer.put_count(message.cached.size());
  for (CacheId id : message.cached) writer.put(id);
  const bool has_more =
      !(message.contributions.empty() && message.joined.empty() && message.shutdowns.empty() &&
        message.unsatisfiable.empty() && message.waiting.empty() && message.failure.empty());
  writer.put(has_more);
  if (!has_more) return writer.take();
  put_all(writer, message.contributions);
  put_ranks(writer, message.joined);
  put_all(writer, message.shutdowns);
  put_all(writer, message.unsatisfiable);
  put_all(writer, message.waiting);
  writer.put_text(message.failure);
  return writer.take();
}

RequestMessage decode_requests(std::span<const std::byte> bytes) {
  FieldReader reader(bytes, throw_damaged);
  RequestMessage message;
  message.responses_seen = reader.get<std::uint64_t>();
  message.cached.resize(reader.get_count(sizeof(CacheId)));
  for (CacheId& id : message.cached) id = reader.get<CacheId>();
  if (reader.get_flag()) {
    message.contributions = get_all(reader, get_contribution);
    message.joined = get_ranks(reader);
    message.shutdowns = get_all(reader, get_shutdown);
    message.unsatisfiable = get_all(reader, get_unsatisfiable);
    message.waiting = get_all(reader, get_waiting);
    message.failure = reader.get_text();
  }
  expect_end(reader);
  return message;
}

std::vector<std::byte> encode(const ResponseMessage& message) {
  FieldWriter writer;
  writer.put_count(message.responses.size());
  for (const Response& response : message.responses) put(writer, response);
  return writer.take();
}

ResponseMessage decode_responses(std::span<const std::byte> bytes) {
  FieldReader reader(bytes, throw_damaged);
  ResponseMessage message;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) message.responses.push_back(get_response(reader));
  expect_end(reader);
  return message;
}

std::vector<std::byte> encode(std::span<const Request> requests) {
  FieldWriter writer;
  writer.put_count(requests.size());
  for (const Request& request : requests) put(writer, request);
  return writer.take();
}

std::vector<Request> decode_request_list(std::span<const std::byte> bytes) {
  FieldReader reader(bytes, throw_damaged);
  std::vector<Request> requests;
  const std::size_t count = reader.get_count(1);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(get_request(reader));
  expect_end(reader);
  return requests;
}

}  // namespace horo::coordinator
