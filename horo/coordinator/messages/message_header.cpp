#include "horo/coordinator/messages/message_header.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/byte_fields.h"
#include "horo/base/error.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

void throw_malformed() {
  throw CommunicationError(
      "the header of a message is malformed; all ranks must run the same version of horo");
}

std::string describe_tensor(const MessageHeader& header) {
  return fmt::format("{} {}", name_of(header.type), header.shape.to_string());
}

}  // namespace

std::vector<std::byte> encode(const MessageHeader& header, std::span<const std::byte> values) {
  FieldWriter writer;
  writer.put(true);
  writer.put_text(header.name);
  writer.put(header.side);
  writer.put(header.type);
  writer.put_count(header.shape.rank());
  for (const std::size_t dimension : header.shape.dimensions())
    writer.put(static_cast<std::uint64_t>(dimension));
  writer.put(header.tag);
  writer.put_bytes(values);
  return writer.take();
}

std::vector<std::byte> encode_shutdown() {
  FieldWriter writer;
  writer.put(false);
  return writer.take();
}

Notice decode_notice(std::span<const std::byte> bytes) {
  FieldReader reader(bytes, throw_malformed);
  Notice notice;
  if (reader.get_flag()) {
    MessageHeader& header = notice.header.emplace();
    header.name = reader.get_text();
    header.side = reader.get_enum<Side>(kSideCount);
    header.type = reader.get_enum<DataType>(kDataTypeCount);
    std::vector<std::size_t> dimensions(reader.get_count(sizeof(std::uint64_t)));
    for (std::size_t& dimension : dimensions) dimension = reader.get<std::uint64_t>();
    header.shape = Shape(std::move(dimensions));
    header.tag = reader.get<std::int32_t>();
    const auto values = reader.get_bytes();
    notice.values.assign(values.begin(), values.end());
  }
  if (!reader.is_whole()) throw_malformed();
  return notice;
}

std::string MessageRoute::describe(const Topology& topology) const {
  return fmt::format("{} from {} to {}", quote_operation(name, topology), topology.describe(sender),
                     topology.describe(receiver));
}

// Sets with the same two ranks have messages of the same names, so the label has the set too.
std::string MessageRoute::label(const Topology& topology) const {
  const std::string set =
      topology.is_subset() ? fmt::format(" of process set {}", topology.set_name()) : "";
  return fmt::format("{} (rank {} to rank {}{})", name, topology.job_rank(sender),
                     topology.job_rank(receiver), set);
}

std::string mismatch_text(const MessageRoute& route, const MessageHeader& sender,
                          const MessageHeader& receiver, const Topology& topology) {
  if (sender.type == receiver.type && sender.shape == receiver.shape) return {};
  return fmt::format("{}: {} sends {}, {} receives {}; both must have the same type and shape",
                     route.describe(topology), topology.describe(route.sender),
                     describe_tensor(sender), topology.describe(route.receiver),
                     describe_tensor(receiver));
}

}  // namespace horo::coordinator
