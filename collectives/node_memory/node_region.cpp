#include "collectives/node_memory/node_region.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/node_memory/free_memory.h"
#include "collectives/node_memory/shared_memory_file.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// The message of the first rank of the node to the others. It contains either the common prefix of
// their socket addresses or the reason why the first rank could not create the memory.
struct Announcement {
  char address[64] = {};
  char error[448] = {};
};

// The bytes that a rank will claim, and the ids of the limits that apply to the rank.
struct MemoryDemandMessage {
  static constexpr std::size_t kMostLimits = 30;  // further limits are omitted
  std::uint64_t bytes = 0, limits = 0;
  std::uint64_t limit_ids[kMostLimits] = {};
};

MemoryDemandMessage message_of(std::size_t bytes, std::span<const FreeMemory> limits) {
  MemoryDemandMessage message{.bytes = bytes};
  for (const FreeMemory& limit :
       limits.first(std::min(limits.size(), MemoryDemandMessage::kMostLimits)))
    message.limit_ids[message.limits++] = limit.id;
  return message;
}

MemoryDemand demand_of(const MemoryDemandMessage& message) {
  return {message.bytes, {message.limit_ids, message.limit_ids + message.limits}};
}

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

// The process id and 96 random bits make the address unique on the host.
std::string random_address() {
  std::random_device device;
  return fmt::format("horo.{}.{:08x}{:08x}{:08x}", getpid(), device(), device(), device());
}

std::string address_of(const Announcement& announcement, int rank) {
  return fmt::format("{}.{}", announcement.address, rank);
}

// The steps to share a file among the ranks of a node. Each step is collective. If a step fails on
// any rank, it throws SharedMemoryError on all ranks.
class Sharing {
 public:
  Sharing(RankGroup& node, std::size_t bytes) : node_(node), bytes_(bytes) {}

  // agree() returns only after all ranks have completed its step. The sockets are therefore bound
  // before rank 0 sends to them, and the descriptor is in the queue of a socket before its owner
  // calls receive(), which does not wait.
  SharedMemoryFile share() {
    check_room();
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
    agree([&] {
      if (socket_) file_.emplace(SharedMemoryFile::adopt(socket_->receive(), bytes_));
      file_->claim(node_.rank(), node_.size());
    });
    file_->close();
    return std::move(*file_);
  }

 private:
  // Ranks may have separate or shared memory limits. Each limit must have room for the claims of
  // all ranks that it applies to.
  void check_room() {
    std::vector<FreeMemory> limits;
    agree([&] { limits = find_memory_limits(); });
    const std::vector<MemoryDemand> demands = gather_demands(limits);
    agree([&] {
      for (const FreeMemory& limit : limits)
        require_free(bytes_demanded_of(limit.id, demands), limit);
    });
  }

  std::vector<MemoryDemand> gather_demands(std::span<const FreeMemory> limits) {
    const Range part = SharedMemoryFile::part_of(bytes_, node_.rank(), node_.size());
    const auto messages = node_.gather_values(message_of(part.count(), limits),
                                              "for the ranks of the node to share memory");
    std::vector<MemoryDemand> demands;
    std::ranges::transform(messages, std::back_inserter(demands), demand_of);
    return demands;
  }

  void announce() {
    if (node_.rank() == 0) try {
        file_.emplace(SharedMemoryFile::create(bytes_));
        put_text(announcement_.address, random_address());
      } catch (const SharedMemoryError& error) {
        put_text(announcement_.error, error.what());
      }
    announcement_ =
        node_.gather_values(announcement_, "for the first rank of the node to make shared memory")
            .front();
    if (announcement_.error[0] != '\0') throw SharedMemoryError(announcement_.error);
  }

  // Runs `step`. Throws on all ranks if the step fails on any rank. `step` must not wait for other
  // ranks, because their steps may have failed.
  template <typename Step>
  void agree(Step&& step) {
    std::string error;
    try {
      step();
    } catch (const SharedMemoryError& caught) {
      error = caught.what();
    } catch (const std::bad_alloc&) {
      error = "out of memory";
    }
    const int failed = first_failed_rank(!error.empty());
    if (!error.empty()) throw SharedMemoryError(error);
    if (failed < node_.size())
      throw SharedMemoryError(
          fmt::format("rank {} of the node cannot set up its part of the shared memory; its own "
                      "error names the cause",
                      failed));
  }

  // Returns the lowest rank of the node whose step has failed, or the size of the node if no step
  // has failed.
  int first_failed_rank(bool has_failed) {
    return std::ranges::min(node_.gather_values(has_failed ? node_.rank() : node_.size(),
                                                "for all ranks of the node to map shared memory"));
  }

  RankGroup& node_;
  const std::size_t bytes_;
  Announcement announcement_;
  std::optional<DescriptorSocket> socket_;
  std::optional<SharedMemoryFile> file_;
};

}  // namespace

std::unique_ptr<NodeRegion> NodeRegion::create(RankGroup& node, std::size_t bytes) {
  Sharing sharing(node, std::max<std::size_t>(bytes, 1));
  // share() is collective. In one statement, `new` could allocate before share() and fail on one
  // rank, and the other ranks would then wait in share().
  SharedMemoryFile file = sharing.share();
  return std::unique_ptr<NodeRegion>(new NodeRegion(std::move(file)));
}

// All ranks of a node already have the same result. The last step combines the results of all
// nodes. Without it, ranks of nodes that have memory would wait for the failed ranks in their next
// collective.
std::unique_ptr<NodeRegion> NodeRegion::create_on_nodes(RankGroup& all, RankGroup& node,
                                                        const Topology& topology,
                                                        std::size_t bytes) {
  std::unique_ptr<NodeRegion> region;
  std::string error;
  try {
    region = create(node, bytes);
  } catch (const SharedMemoryError& caught) {
    error = caught.what();
  }
  int without = topology.size;
  if (topology.node_count > 1)
    without = std::ranges::min(all.gather_values(error.empty() ? topology.size : topology.rank,
                                                 "for all nodes to make shared memory"));
  if (!error.empty()) throw SharedMemoryError(error);
  if (without < topology.size)
    throw SharedMemoryError(fmt::format("the node of {} does not have enough shared memory",
                                        topology.describe(without)));
  return region;
}

}  // namespace horo::collectives
