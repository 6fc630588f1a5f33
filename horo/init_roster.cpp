#include "horo/init_roster.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "horo/observe/process_state.h"

namespace horo {
namespace {

constexpr int kBacklog = 4096;
constexpr std::string_view kReporter = "reporter";
constexpr std::string_view kDeputy = "deputy";  // while the reporter is stopped

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// The leading zero byte makes it an abstract name, which has no file.
Address abstract_address(std::string_view text) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof address.name.sun_path - 1);
  std::memcpy(address.name.sun_path + 1, text.data(), length);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

FileDescriptor make_socket() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Connections only show that somebody listens: they are dropped, so that the queue stays short.
void drop_connections(const FileDescriptor& listener) {
  while (listener.get() >= 0) {
    const FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) return;
  }
}

}  // namespace

InitRoster::InitRoster(std::string_view job, int rank, int size)
    : name_(fmt::format("horo-init-{}-{}", geteuid(), job)),
      rank_(rank),
      size_(size),
      own_(listen_on(fmt::format("{}", rank))) {}

FileDescriptor InitRoster::listen_on(std::string_view role) const {
  FileDescriptor listener = make_socket();
  const Address address = abstract_address(fmt::format("{}-{}", name_, role));
  const bool is_listening = bind(listener.get(), address.get(), address.length) == 0 &&
                            listen(listener.get(), kBacklog) == 0;
  return is_listening ? std::move(listener) : FileDescriptor();
}

std::optional<InitRoster::Listener> InitRoster::find(std::string_view role) const {
  const FileDescriptor connection = make_socket();
  const Address address = abstract_address(fmt::format("{}-{}", name_, role));
  if (connect(connection.get(), address.get(), address.length) != 0)
    // A full queue is that of a process that listens.
    return errno == EAGAIN ? std::optional(Listener{}) : std::nullopt;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
    return Listener{};
  const auto state = observe::state_of_process(peer.pid, 0);
  return Listener{peer.pid, state == observe::ProcessState::kStopped};
}

std::vector<InitRoster::Waiting> InitRoster::waiting() {
  std::vector<Waiting> found;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_)
      found.push_back({rank, getpid(), false});
    else if (const auto listener = find(fmt::format("{}", rank)))
      found.push_back({rank, listener->pid, listener->is_stopped});
  }
  return found;
}

bool InitRoster::is_reporter() {
  drop_connections(own_);
  drop_connections(reporter_);
  if (reporter_.get() >= 0) return true;
  reporter_ = listen_on(kReporter);
  if (reporter_.get() >= 0) return true;
  const auto other = find(kReporter);
  if (!other || !other->is_stopped) {
    deputy_ = FileDescriptor();
    return false;
  }
  drop_connections(deputy_);
  if (deputy_.get() < 0) deputy_ = listen_on(kDeputy);
  return deputy_.get() >= 0;
}

}  // namespace horo
