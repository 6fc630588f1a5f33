#include "tests/fakes/nccl/shared_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/fakes/cuda/violation.h"

namespace horo::fakes {
namespace {

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

int open_file(const std::string& name, int flags) {
  const int file = shm_open(name.c_str(), flags, 0600);
  if (file < 0) throw std::system_error(errno, std::generic_category(), name);
  return file;
}

std::string text_of(const Description& d) {
  return fmt::format("{}(count {}, type {}, operation {}, root {})", d.call, d.count, d.type,
                     d.operation, d.root);
}

auto fields(const Description& d) { return std::tie(d.count, d.type, d.operation, d.root); }

}  // namespace

std::string SharedGroup::create() {
  std::random_device random;
  std::string name = fmt::format("/horo_fake_nccl_{:08x}{:08x}", random(), random());
  const int file = open_file(name, O_CREAT | O_EXCL | O_RDWR);
  if (ftruncate(file, sizeof(Memory)) != 0)
    throw std::system_error(errno, std::generic_category(), name);
  close(file);
  return name;
}

SharedGroup::SharedGroup(const std::string& name, int rank, int size)
    : name_(name), rank_(rank), size_(size) {
  if (size > kRanks) violation("ncclCommInitRankConfig", name, "the fake supports 8 ranks");
  const int file = open_file(name, O_RDWR);
  void* const memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), name);
  memory_ = static_cast<Memory*>(memory);
  if (++memory_->joined == size) shm_unlink(name.c_str());
}

SharedGroup::~SharedGroup() { munmap(memory_, sizeof(Memory)); }

bool SharedGroup::is_complete() { return memory_->joined >= size_; }

void SharedGroup::abort() { memory_->ranks[rank_].is_aborted = true; }

void SharedGroup::announce(const Description& description) {
  memory_->ranks[rank_].step = description;
  memory_->ranks[rank_].announced = ++steps_;
}

bool SharedGroup::is_agreed() {
  for (int r = 0; r < size_; ++r) {
    const Rank& other = memory_->ranks[r];
    if (other.announced < steps_ && !other.is_aborted) return false;
    if (other.announced == steps_) require_equal(r, memory_->ranks[rank_].step, other.step);
  }
  return true;
}

void SharedGroup::require_equal(int other, const Description& own,
                                const Description& theirs) const {
  if (std::strcmp(own.call, theirs.call) == 0 && fields(own) == fields(theirs)) return;
  violation(own.call, fmt::format("rank {} of {}", rank_, name_),
            fmt::format("the ranks disagree: rank {} calls {}, rank {} calls {}", rank_,
                        text_of(own), other, text_of(theirs)));
}

bool SharedGroup::await(const std::function<bool()>& condition) const {
  while (!condition()) {
    if (memory_->ranks[rank_].is_aborted) return false;
    pause();
  }
  return true;
}

void SharedGroup::exchange(const Description& description, const void* input, std::size_t bytes,
                           const Consume& consume) {
  Rank& own = memory_->ranks[rank_];
  std::vector<const std::byte*> chunks;
  for (int r = 0; r < size_; ++r) chunks.push_back(memory_->ranks[r].chunk);
  for (std::size_t offset = 0; offset == 0 || offset < bytes; offset += kChunk) {
    const std::size_t count = std::min(kChunk, bytes - offset);
    const std::uint64_t number = ++exchanges_;
    for (int r = 0; r < size_; ++r)  // the chunks of the previous exchange are not needed any more
      if (!await([&] { return memory_->ranks[r].done >= number - 1; })) return;
    if (input != nullptr)
      std::memcpy(own.chunk, static_cast<const std::byte*>(input) + offset, count);
    own.current = description;
    own.ready = number;
    for (int r = 0; r < size_; ++r) {
      if (!await([&] { return memory_->ranks[r].ready >= number; })) return;
      require_equal(r, description, memory_->ranks[r].current);
    }
    consume(offset, count, chunks);
    own.done = number;
  }
}

// Moves a part of a message, if the peer is ready.
void SharedGroup::advance(const Message& message, std::size_t& moved) {
  const int from = message.is_sent ? rank_ : message.peer;
  Pair& pair = memory_->pairs[from][message.is_sent ? message.peer : rank_];
  const std::size_t count = std::min(kPiece, message.bytes - moved);
  std::byte* const place = static_cast<std::byte*>(message.data) + moved;
  if (message.is_sent) {
    if (pair.sent != pair.received) return;
    pair.bytes = message.bytes;
    std::memcpy(pair.piece, place, count);
    ++pair.sent;
  } else {
    if (pair.sent == pair.received) return;
    if (pair.bytes != message.bytes)
      violation("ncclRecv", fmt::format("rank {} of {}", rank_, name_),
                fmt::format("the ranks disagree: rank {} receives {} bytes, rank {} sends {}",
                            rank_, message.bytes, message.peer, pair.bytes));
    std::memcpy(place, pair.piece, count);
    ++pair.received;
  }
  moved += count;
}

void SharedGroup::exchange(std::span<const Message> messages) {
  std::vector<std::size_t> moved(messages.size());
  await([&] {
    bool is_done = true;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (moved[i] < messages[i].bytes) advance(messages[i], moved[i]);
      is_done &= moved[i] == messages[i].bytes;
    }
    return is_done;
  });
}

}  // namespace horo::fakes
