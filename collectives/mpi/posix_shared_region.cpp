#include "collectives/mpi/posix_shared_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// What the node's first rank tells the others: the name, or why there is none.
struct Announcement {
  char name[64] = {};
  char error[448] = {};
};

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

Announcement announce(const MpiComm& node, const Announcement& own, const WaitPolicy& policy) {
  MpiBuffer<Announcement> announcement(own);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Ibcast(&*announcement, sizeof(Announcement), MPI_BYTE, 0, node.get(), &request));
  wait_for_mpi(request, policy, "for the first rank of the node to make shared memory");
  return *announcement;
}

// The lowest rank of the node that has failed; the node's size if none has.
int first_failed_rank(const MpiComm& node, bool has_failed, const WaitPolicy& policy) {
  MpiBuffer<int> own(has_failed ? node.rank() : node.size());
  MpiBuffer<int> first(*own);
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Iallreduce(&*own, &*first, 1, MPI_INT, MPI_MIN, node.get(), &request));
  wait_for_mpi(request, policy, "for all ranks of the node to claim shared memory");
  return *first;
}

}  // namespace

std::unique_ptr<PosixSharedRegion> PosixSharedRegion::create(const MpiComm& node, std::size_t bytes,
                                                             const WaitPolicy& policy) {
  bytes = std::max<std::size_t>(bytes, 1);
  Announcement announcement;
  std::optional<SharedMemoryFile> file;
  if (node.rank() == 0) try {
      file.emplace(SharedMemoryFile::create(bytes));
      put_text(announcement.name, file->name());
    } catch (const SharedMemoryError& error) {
      put_text(announcement.error, error.what());
    }
  announcement = announce(node, announcement, policy);
  if (announcement.error[0] != '\0') throw SharedMemoryError(announcement.error);

  std::string error;
  try {
    if (!file) file.emplace(SharedMemoryFile::open(announcement.name, bytes));
    file->claim(node.rank(), node.size());
  } catch (const SharedMemoryError& caught) {
    error = caught.what();
  }
  const int failed = first_failed_rank(node, !error.empty(), policy);
  if (!error.empty()) throw SharedMemoryError(error);
  if (failed < node.size())
    throw SharedMemoryError(
        fmt::format("rank {} of the node could not have its part of the shared memory", failed));
  file->unlink();
  return std::unique_ptr<PosixSharedRegion>(new PosixSharedRegion(std::move(*file)));
}

}  // namespace horo::collectives
