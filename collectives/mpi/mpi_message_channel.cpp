#include "collectives/mpi/mpi_message_channel.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "collectives/mpi/message_pieces.h"
#include "horo/base/error.h"
#include "horo/base/log.h"

namespace horo::collectives {

MpiMessageChannel::MpiMessageChannel(MpiComm comm)
    : comm_(std::move(comm)), rank_(comm_.rank()), size_(comm_.size()) {}

MpiMessageChannel::~MpiMessageChannel() {
  using namespace std::chrono_literals;
  if (sending_.empty() || !mpi_is_running()) return;
  try {
    const auto end = std::chrono::steady_clock::now() + 1s;
    for (reap(); !sending_.empty() && std::chrono::steady_clock::now() < end; reap())
      std::this_thread::sleep_for(100us);
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
  if (sending_.empty()) return;
  log_warning("{} messages were not delivered when their channel was closed", sending_.size());
  new std::list<Sending>(
      std::move(sending_));  // MPI may still read them: left allocated on purpose
}

void MpiMessageChannel::send(int destination, std::span<const std::byte> bytes) {
  HORO_CHECK(bytes.size() < kLargestMpiMessage, "a control message must be shorter than 1 GiB");
  reap();
  Sending& sending = sending_.emplace_back();
  sending.bytes.assign(bytes.begin(), bytes.end());
  HORO_MPI(MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                     destination, 0, comm_.get(), &sending.request));
}

std::optional<MessageChannel::Message> MpiMessageChannel::poll() {
  reap();
  int is_there = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  HORO_MPI(MPI_Improbe(MPI_ANY_SOURCE, 0, comm_.get(), &is_there, &handle, &status));
  if (!is_there) return std::nullopt;
  int count = 0;
  HORO_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
  Message message{status.MPI_SOURCE, std::vector<std::byte>(static_cast<std::size_t>(count))};
  HORO_MPI(MPI_Mrecv(message.bytes.data(), count, MPI_BYTE, &handle, MPI_STATUS_IGNORE));
  return message;
}

void MpiMessageChannel::reap() {
  for (auto it = sending_.begin(); it != sending_.end();) {
    int is_done = 0;
    HORO_MPI(MPI_Test(&it->request, &is_done, MPI_STATUS_IGNORE));
    it = is_done ? sending_.erase(it) : std::next(it);
  }
}

}  // namespace horo::collectives
