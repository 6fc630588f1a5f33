#include "launcher/rank_processes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "horo/base/environment.h"
#include "horo/base/thread_name.h"
#include "launcher/machine.h"

namespace horo {
namespace {

constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK";
constexpr std::string_view kSize = "OMPI_COMM_WORLD_SIZE";
constexpr std::string_view kLocalSize = "OMPI_COMM_WORLD_LOCAL_SIZE";
constexpr std::string_view kJob = "PMIX_NAMESPACE";
constexpr std::string_view kNodes = "OMPI_MCA_orte_num_nodes";
constexpr std::string_view kSession = "OMPI_MCA_orte_jobfam_session_dir";

template <class Number>
std::optional<Number> number_in(const std::vector<std::string>& environment,
                                std::string_view name) {
  const std::string_view text = variable_in(environment, name);
  Number value{};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

bool runs(const ProcessId& process) { return running_process(process.pid) == process; }

bool contains(const std::vector<ProcessId>& processes, const ProcessId& process) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

bool any_of_them_runs(const std::vector<ProcessId>& processes) {
  return std::any_of(processes.begin(), processes.end(), runs);
}

// A rank may be a shell that runs the program. Below a rank there may also be a process of another
// job, whose init() is not the rank's.
bool is_in_init(pid_t pid, unsigned job) {
  const auto own_job = number_in<unsigned>(environment_of(pid), kJob);
  if (own_job && *own_job != job) return false;
  if (has_thread(pid, kInitThreadName)) return true;
  const std::vector<pid_t> children = children_of(pid);
  return std::any_of(children.begin(), children.end(),
                     [&](pid_t child) { return is_in_init(child, job); });
}

}  // namespace

void RankProcesses::update() {
  for (pid_t child : children_of(getpid()))
    if (const auto process = running_process(child)) visit(*process);
}

void RankProcesses::visit(const ProcessId& process) {
  if (add_if_rank(process)) return;
  for (pid_t child : children_of(process.pid))
    if (const auto found = running_process(child)) visit(*found);
}

bool RankProcesses::add_if_rank(const ProcessId& process) {
  if (contains(known_, process)) return true;
  const std::vector<std::string> environment = environment_of(process.pid);
  const auto rank = number_in<int>(environment, kRank);
  const auto job = number_in<unsigned>(environment, kJob);
  // Where this process runs in a rank of another job, so do mpirun and its daemons.
  if (!rank || !job || job == number_in<unsigned>(process_environment(), kJob)) return false;
  if (!job_)
    job_ = MpiJob{.id = *job,
                  .size = number_in<int>(environment, kSize).value_or(0),
                  .nodes = number_in<int>(environment, kNodes).value_or(0),
                  .local_size = number_in<int>(environment, kLocalSize).value_or(0),
                  .session_directories = {}};
  if (const std::string_view session = variable_in(environment, kSession);
      *job == job_->id && !session.empty())
    job_->session_directories.emplace(session);
  (*job == job_->id ? ranks_[*rank] : others_).push_back(process);
  known_.push_back(process);
  return true;
}

bool RankProcesses::any_runs() const { return any_of_them_runs(known_); }

bool RankProcesses::all_are_here() const {
  return job_ && (job_->nodes == 1 || static_cast<int>(ranks_.size()) == job_->size);
}

bool RankProcesses::all_are_found() const {
  if (!job_) return false;
  const int here = job_->nodes == 1 ? job_->size : job_->local_size;
  return here > 0 && static_cast<int>(ranks_.size()) >= here;
}

std::map<int, pid_t> RankProcesses::ended() const {
  std::map<int, pid_t> found;
  for (const auto& [rank, processes] : ranks_)
    if (!any_of_them_runs(processes)) found[rank] = processes.front().pid;
  return found;
}

std::vector<int> RankProcesses::in_init() const {
  std::vector<int> found;
  for (const auto& [rank, processes] : ranks_)
    if (std::any_of(processes.begin(), processes.end(), [&](const ProcessId& process) {
          return runs(process) && is_in_init(process.pid, job_->id);
        }))
      found.push_back(rank);
  return found;
}

}  // namespace horo
