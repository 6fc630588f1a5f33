#include "horo/process_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "collectives/agreement.h"
#include "horo/base/hash.h"
#include "horo/base/text/log.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

std::string list_of(const std::vector<int>& ranks) {
  return fmt::format("{{{}}}", fmt::join(ranks, ", "));
}

void check_ranks(const std::vector<int>& ranks, int size) {
  HORO_CHECK(!ranks.empty(), "new_process_set: a process set needs at least one rank");
  HORO_CHECK(std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end(),
             fmt::format("new_process_set: the ranks {} must ascend, each once", list_of(ranks)));
  HORO_CHECK(ranks.front() >= 0 && ranks.back() < size,
             fmt::format("new_process_set: not all of {} are among the {} ranks 0 ... {}",
                         list_of(ranks), size, size - 1));
}

// Throws MismatchError on every rank if the lists differ. If they are equal, the comparison costs
// one allreduce of a hash. The lists are gathered only for the error text.
void agree_on_ranks(const std::string& name, const std::vector<int>& ranks,
                    collectives::Collectives& collectives, const Topology& topology) {
  const auto bytes = std::as_bytes(std::span(ranks));
  if (collectives::all_equal(Hash().add_bytes(bytes.data(), bytes.size()).value(), collectives))
    return;
  std::vector<std::vector<int>> lists;
  for (const auto& part : collectives::gather_all(bytes, collectives, topology)) {
    std::vector<int>& list = lists.emplace_back(part.size() / sizeof(int));
    if (!part.empty()) std::memcpy(list.data(), part.data(), part.size());
  }
  const auto other = std::ranges::find_if(lists, [&](const auto& l) { return l != lists[0]; });
  throw MismatchError(
      fmt::format("'{}': {} requested the process set {}, {} requested {}: every rank of the job, "
                  "member or not, must "
                  "ask for the same one",
                  name, topology.describe(0), list_of(lists[0]),
                  topology.describe(static_cast<int>(other - lists.begin())), list_of(*other)));
}

// Sets the log label of this thread while the runtime of a set is made. The threads of that runtime
// inherit the label.
class LogLabelOfSet {
 public:
  explicit LogLabelOfSet(const Topology& topology) : before_(log_label()) {
    set_log_label(fmt::format("{} in {}", before_, topology.set_name()));
  }
  ~LogLabelOfSet() { set_log_label(before_); }
  LogLabelOfSet(const LogLabelOfSet&) = delete;
  LogLabelOfSet& operator=(const LogLabelOfSet&) = delete;

 private:
  std::string before_;
};

// Makes the runtime of a set. Returns null if this rank is not a member. If a node of the set has
// too little shared memory, sets `error` on all members and returns null. Collective over the ranks
// of `parent`. The runtime of the set keeps the runtime of the parent alive, because both use the
// same MPI session and flight recorder.
std::shared_ptr<Runtime> make_runtime(const std::shared_ptr<Runtime>& parent,
                                      const std::vector<int>& members, int number,
                                      std::string& error) {
  auto transport = parent->transport().make_subset(members, number);
  if (transport == nullptr) return nullptr;
  const LogLabelOfSet label(transport->topology());
  try {
    return share(std::make_unique<Runtime>(parent, std::move(transport)));
  } catch (const SharedMemoryError& caught) {
    error = caught.what();
    return nullptr;
  }
}

}  // namespace

// The task may refer to this stack frame, because run_task() waits for the task. All ranks of the
// parent run the task at the same position in the sequence of collectives, so all ranks make sets
// in the same order. If a node has too little shared memory, the allreduce makes the ranks that are
// not members throw too.
ProcessSet Context::new_process_set(std::vector<int> ranks) {
  const std::shared_ptr<Runtime> parent = runtime();
  const Topology& topology = parent->topology();
  check_ranks(ranks, topology.size);
  coordinator::forbid_blocking_in_callbacks();  // before a name is taken
  parent->sets().sweep();  // frees closed sets, for programs that make sets repeatedly
  std::vector<int> job_ranks;
  for (const int rank : ranks) job_ranks.push_back(topology.job_rank(rank));

  std::shared_ptr<Runtime> set;
  std::string error;
  coordinator::Entry entry;
  entry.request.kind = coordinator::Kind::kTask;
  entry.request.name = parent->automatic_name("process_set");
  entry.task = [&, name = entry.request.name](collectives::Collectives& collectives) {
    agree_on_ranks(name, ranks, collectives, topology);
    set = make_runtime(parent, ranks, parent->sets().number_of(ranks), error);
    std::uint8_t is_made = error.empty();
    collectives.allreduce({DataType::kUInt8, &is_made, 1}, ReduceOp::kMin);
    if (is_made == 0 && error.empty()) error = "a node does not have enough shared memory";
  };
  parent->run_task(std::move(entry));
  if (!error.empty())
    throw SharedMemoryError(fmt::format("no process set {}: {}", list_of(job_ranks), error));
  if (set == nullptr) {
    const auto why = std::make_exception_ptr(
        InvalidArgument(fmt::format("rank {} is not a member of the process set {}",
                                    topology.job_rank(topology.rank), list_of(job_ranks))));
    return ProcessSet(RuntimePointer(why), std::move(job_ranks));
  }
  parent->sets().add(set);
  return ProcessSet(RuntimePointer(std::move(set)), std::move(job_ranks));
}

ProcessSet::ProcessSet(RuntimePointer runtime, std::vector<int> ranks)
    : Context(std::move(runtime)), ranks_(std::move(ranks)), includes_me_(has_runtime()) {}

// release() leaves the base class without a runtime. Otherwise ~Context() would wait for the other
// members. The parent takes over the runtime of the set and keeps it until all members have left
// the set. `parent` is a copy of the pointer, because retire() may destroy the set, which may own
// the last reference to its parent.
ProcessSet::~ProcessSet() {
  auto set = release(nullptr);
  if (set == nullptr || set->home().is_elsewhere()) return;
  try {
    const std::shared_ptr<Runtime> parent = set->parent();
    parent->sets().retire(std::move(set));
  } catch (const std::exception& error) {
    log_error("the process set {} was not closed: {}", name(), error.what());
  }
}

int ProcessSet::rank_of(int job_rank) const {
  const auto found = std::ranges::lower_bound(ranks_, job_rank);
  HORO_CHECK(found != ranks_.end() && *found == job_rank,
             fmt::format("rank {} is not a member of the process set {}", job_rank, name()));
  return static_cast<int>(found - ranks_.begin());
}

std::string ProcessSet::name() const { return list_of(ranks_); }

// If shut_down() throws, the object keeps its runtime, and the destructor retires that runtime.
void ProcessSet::close() {
  if (!has_runtime()) return;
  runtime()->shut_down();
  release(std::make_exception_ptr(
      ShutdownError(fmt::format("the process set {} has been closed", name()))));
}

}  // namespace horo
