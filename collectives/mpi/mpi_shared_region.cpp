#include "collectives/mpi/mpi_shared_region.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "collectives/mpi/descriptor_socket.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// What the first rank of the node sends to the others: where to receive, or why there is no memory.
struct Announcement {
  char address[64] = {};
  char error[448] = {};
};

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

std::string random_address() {
  std::random_device device;
  return fmt::format("horo.{}.{:08x}{:08x}{:08x}", getpid(), device(), device(), device());
}

std::string address_of(const Announcement& announcement, int rank) {
  return fmt::format("{}.{}", announcement.address, rank);
}

/// The steps in which the ranks of a node come to share a file. Each is collective and throws
/// SharedMemoryError on all ranks if it fails on one.
class Sharing {
 public:
  Sharing(const MpiComm& node, std::size_t bytes, const WaitPolicy& policy)
      : node_(node), policy_(policy), bytes_(bytes) {}

  SharedMemoryFile share() {
    announce();
    if (node_.size() > 1) {
      agree([&] {
        if (node_.rank() > 0) socket_.emplace(address_of(announcement_, node_.rank()));
      });
      agree([&] {
        if (node_.rank() > 0) return;
        for (int rank = 1; rank < node_.size(); ++rank)
          DescriptorSocket::send(file_->descriptor(), address_of(announcement_, rank));
      });
    }
    // What was sent has arrived.
    agree([&] {
      if (socket_) file_.emplace(SharedMemoryFile::adopt(socket_->receive(), bytes_));
      file_->claim(node_.rank(), node_.size());
    });
    file_->close();
    return std::move(*file_);
  }

 private:
  void announce() {
    if (node_.rank() == 0) try {
        file_.emplace(SharedMemoryFile::create(bytes_));
        put_text(announcement_.address, random_address());
      } catch (const SharedMemoryError& error) {
        put_text(announcement_.error, error.what());
      }
    MpiBuffer<Announcement> buffer(announcement_);
    MPI_Request request = MPI_REQUEST_NULL;
    HORO_MPI(MPI_Ibcast(&*buffer, sizeof(Announcement), MPI_BYTE, 0, node_.get(), &request));
    wait_for_mpi(request, policy_, "for the first rank of the node to make shared memory");
    announcement_ = *buffer;
    if (announcement_.error[0] != '\0') throw SharedMemoryError(announcement_.error);
  }

  template <typename Step>
  void agree(Step&& step) {
    std::string error;
    try {
      step();
    } catch (const SharedMemoryError& caught) {
      error = caught.what();
    }
    const int failed = first_failed_rank(!error.empty());
    if (!error.empty()) throw SharedMemoryError(error);
    if (failed < node_.size())
      throw SharedMemoryError(
          fmt::format("rank {} of the node could not have its part of the shared memory", failed));
  }

  // The lowest rank of the node that has failed; the node's size if none has.
  int first_failed_rank(bool has_failed) const {
    MpiBuffer<int> own(has_failed ? node_.rank() : node_.size());
    MpiBuffer<int> first(*own);
    MPI_Request request = MPI_REQUEST_NULL;
    HORO_MPI(MPI_Iallreduce(&*own, &*first, 1, MPI_INT, MPI_MIN, node_.get(), &request));
    wait_for_mpi(request, policy_, "for all ranks of the node to map shared memory");
    return *first;
  }

  const MpiComm& node_;
  const WaitPolicy& policy_;
  const std::size_t bytes_;
  Announcement announcement_;
  std::optional<DescriptorSocket> socket_;
  std::optional<SharedMemoryFile> file_;
};

}  // namespace

std::unique_ptr<MpiSharedRegion> MpiSharedRegion::create(const MpiComm& node, std::size_t bytes,
                                                         const WaitPolicy& policy) {
  Sharing sharing(node, std::max<std::size_t>(bytes, 1), policy);
  return std::unique_ptr<MpiSharedRegion>(new MpiSharedRegion(sharing.share()));
}

}  // namespace horo::collectives
