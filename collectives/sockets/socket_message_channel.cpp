#include "collectives/sockets/socket_message_channel.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {

using namespace std::chrono_literals;

SocketMessageChannel::SocketMessageChannel(std::shared_ptr<SocketMesh> mesh,
                                           const Topology& topology, StreamId id)
    : stream_(std::move(mesh), topology, id),
      out_(static_cast<std::size_t>(topology.size)),
      readable_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!readable_.is_open())
    throw CommunicationError(
        fmt::format("cannot make a channel for control messages: {}", std::strerror(errno)));
}

// A peer that has ended must not block the shutdown.
SocketMessageChannel::~SocketMessageChannel() {
  stream_.listener().forget(*this);
  const auto end = std::chrono::steady_clock::now() + 1s;
  while (!send_rest() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(100us);
  if (!sending_.empty())
    log_warning("messages to {} not delivered before the channel was closed",
                format_count(sending_.size(), "rank"));
}

void SocketMessageChannel::send(int destination, std::span<const std::byte> bytes) {
  {
    const std::scoped_lock lock(sending_mutex_);
    std::unique_ptr<OutgoingStream>& out = out_[static_cast<std::size_t>(destination)];
    if (out == nullptr) out = std::make_unique<OutgoingStream>(stream_.to(destination));
    if (!out->failure().empty()) return;
    if (out->is_idle()) sending_.push_back(destination);
    out->push(0, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  if (!send_rest()) stream_.listener().send_later(*this);
}

bool SocketMessageChannel::send_rest() {
  const std::scoped_lock lock(sending_mutex_);
  std::erase_if(sending_, [&](int destination) {
    OutgoingStream& out = *out_[static_cast<std::size_t>(destination)];
    out.progress();
    if (out.failure().empty()) return out.is_idle();
    log_message(out.was_connected() ? LogLevel::kDebug : LogLevel::kWarning,
                fmt::format("control messages to {} are lost: {}", stream_.describe(destination),
                            out.failure()));
    return true;
  });
  return sending_.empty();
}

// epoll needs one system call for all sources. It refers to a source by its address.
void SocketMessageChannel::accept_sources() {
  while (auto connection = stream_.accept()) {
    sources_.push_back({connection->source, IncomingStream(std::move(connection->socket)), {}});
    Source& source = sources_.back();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &source;
    if (epoll_ctl(readable_.get(), EPOLL_CTL_ADD, source.in.descriptor(), &event) != 0)
      throw CommunicationError(fmt::format("cannot receive control messages of {}: {}",
                                           stream_.describe(source.rank), std::strerror(errno)));
  }
}

std::optional<MessageChannel::Message> SocketMessageChannel::poll() {
  accept_sources();
  if (received_.empty() && !sources_.empty()) {
    epoll_event events[16];
    const int count = epoll_wait(readable_.get(), events, std::size(events), 0);
    for (int i = 0; i < count; ++i) {
      auto& source = *static_cast<Source*>(events[i].data.ptr);
      while (auto message = receive_from(source)) received_.push_back(std::move(*message));
      // The kernel removes a closed descriptor from the epoll instance.
      if (source.in.is_closed())
        sources_.remove_if([&](const Source& each) { return &each == &source; });
    }
  }
  if (received_.empty()) return std::nullopt;
  Message message = std::move(received_.front());
  received_.pop_front();
  return message;
}

std::optional<MessageChannel::Message> SocketMessageChannel::receive_from(Source& source) {
  const MessageHeader* header = source.in.receive_header();
  if (header == nullptr) return std::nullopt;
  if (!source.bytes) source.bytes.emplace(header->bytes);
  if (!source.in.receive_bytes(*source.bytes)) return std::nullopt;
  source.in.finish_message();
  return Message{source.rank, *std::exchange(source.bytes, std::nullopt)};
}

}  // namespace horo::collectives
