#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace horo::fakes {

/// What a rank asks for in a collective. It must be equal on all ranks.
struct Description {
  char call[32];
  std::int32_t operation, type, root;
  std::uint64_t count;
};

/// One message of a group of sends and receives.
struct Message {
  int peer;
  void* data;
  std::size_t bytes;
  bool is_sent;
};

/// The memory that the ranks of a communicator share, and the exchange of data through it. The
/// ranks may be processes or threads. One object per rank; each function is called by one thread at
/// a time.
class SharedGroup {
 public:
  static constexpr int kRanks = 8;
  static constexpr std::size_t kChunk = 1 << 18, kPiece = 1 << 15;

  /// Creates the memory and returns its name.
  static std::string create();
  /// Joins the group.
  SharedGroup(const std::string& name, int rank, int size);
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  /// Whether all ranks have joined.
  bool is_complete();
  /// Ends all waits of this rank, and does not make other ranks wait for it in finalize().
  void abort();
  /// Announces a step that all ranks take, such as the registration of a window.
  void announce(const Description& description);
  /// Whether all ranks have announced this step or have aborted. It is a violation if their
  /// descriptions differ.
  bool is_agreed();

  /// Calls `consume` for each chunk of the ranks' inputs, which have `bytes` bytes: with its offset
  /// and size, and the ranks' data. Does not return the remaining chunks after abort(). It is a
  /// violation if the descriptions of the ranks differ.
  using Consume = std::function<void(std::size_t offset, std::size_t bytes,
                                     std::span<const std::byte* const> chunks)>;
  void exchange(const Description& description, const void* input, std::size_t bytes,
                const Consume& consume);
  /// Sends and receives all messages. It is a violation if the sizes differ between two ranks.
  void exchange(std::span<const Message> messages);

 private:
  struct Rank {
    std::atomic<std::uint64_t> ready, done, announced;
    std::atomic<bool> is_aborted;
    Description current, step;
    std::byte chunk[kChunk];
  };
  struct Pair {
    std::atomic<std::uint64_t> sent, received;
    std::uint64_t bytes;  // of the whole message
    std::byte piece[kPiece];
  };
  struct Memory {
    std::atomic<int> joined;
    Rank ranks[kRanks];
    Pair pairs[kRanks][kRanks];  // [from][to]
  };

  void require_equal(int other, const Description& own, const Description& theirs) const;
  bool await(const std::function<bool()>& condition) const;
  void advance(const Message& message, std::size_t& moved);

  const std::string name_;
  const int rank_, size_;
  Memory* memory_ = nullptr;
  std::uint64_t exchanges_ = 0, steps_ = 0;
};

}  // namespace horo::fakes
