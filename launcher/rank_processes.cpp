#include "launcher/rank_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "horo/base/environment.h"
#include "horo/base/system/threads.h"
#include "launcher/machine.h"
#include "launcher/rank/rank_cleaner.h"

namespace horo {

namespace {

namespace fs = std::filesystem;

std::string contents_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

std::vector<std::string> threads_of(pid_t pid) {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entry(fmt::format("/proc/{}/task", pid), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    found.push_back(entry->path().string());
  return found;
}

}  // namespace

// The start time is part of the identity, because the kernel reuses process ids and a job may run
// for days.
std::optional<ProcessId> running_process(pid_t pid) {
  const std::string text = contents_of(fmt::format("/proc/{}/stat", pid));
  // "PID (NAME) STATE PARENT ..."; the name may contain blanks and parentheses.
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string state;
  std::string skipped;
  long threads = 0;
  ProcessId process{.pid = pid};
  fields >> state;
  for (int field = 4; field < 20; ++field) fields >> skipped;
  if (!(fields >> threads >> skipped >> process.start_time)) return std::nullopt;
  // A main thread that has called pthread_exit() is a zombie while other threads run.
  const bool has_ended = state == "X" || (state == "Z" && threads <= 1);
  return has_ended ? std::nullopt : std::optional(process);
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  for (const std::string& thread : threads_of(pid)) {
    std::istringstream text(contents_of(thread + "/children"));
    for (pid_t child = 0; text >> child;) found.push_back(child);
  }
  return found;
}

std::vector<std::string> environment_of(pid_t pid) {
  std::vector<std::string> entries;
  std::istringstream text(contents_of(fmt::format("/proc/{}/environ", pid)));
  for (std::string entry; std::getline(text, entry, '\0');) entries.push_back(std::move(entry));
  return entries;
}

bool has_thread(pid_t pid, std::string_view name) {
  for (const std::string& thread : threads_of(pid)) {
    const std::string text = contents_of(thread + "/comm");
    if (std::string_view(text).substr(0, text.find('\n')) == name) return true;
  }
  return false;
}

namespace {

constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK";
constexpr std::string_view kSize = "OMPI_COMM_WORLD_SIZE";
constexpr std::string_view kLocalSize = "OMPI_COMM_WORLD_LOCAL_SIZE";
constexpr std::string_view kJob = "PMIX_NAMESPACE";
constexpr std::string_view kNodes = "OMPI_MCA_orte_num_nodes";
constexpr std::string_view kSession = "OMPI_MCA_orte_jobfam_session_dir";

bool runs(const ProcessId& process) { return running_process(process.pid) == process; }

bool contains(const std::vector<ProcessId>& processes, const ProcessId& process) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

bool any_of_them_runs(const std::vector<ProcessId>& processes) {
  return std::any_of(processes.begin(), processes.end(), runs);
}

// Also searches the descendants of `pid`, because the process of a rank may be a runner or a shell,
// which runs the program as a child. Ignores descendants that belong to another job, because they
// call init() for that job.
bool is_in_init(pid_t pid, unsigned job) {
  const auto own_job = number_in<unsigned>(environment_of(pid), kJob);
  if (own_job && *own_job != job) return false;
  if (has_thread(pid, kInitThreadName)) return true;
  const std::vector<pid_t> children = children_of(pid);
  return std::any_of(children.begin(), children.end(),
                     [&](pid_t child) { return is_in_init(child, job); });
}

}  // namespace

// Visits only descendants of this process, and therefore no ranks of other instances of hororun.
void RankProcesses::update() {
  for (pid_t child : children_of(getpid()))
    if (const auto process = running_process(child)) visit(*process);
}

// Skips cleaning processes, because a cleaning process has the environment of its rank but outlives
// the rank.
void RankProcesses::visit(const ProcessId& process) {
  if (has_thread(process.pid, kRankCleanerName) || add_if_rank(process)) return;
  for (pid_t child : children_of(process.pid))
    if (const auto found = running_process(child)) visit(*found);
}

bool RankProcesses::add_if_rank(const ProcessId& process) {
  if (contains(known_, process)) return true;
  const std::vector<std::string> environment = environment_of(process.pid);
  const auto rank = number_in<int>(environment, kRank);
  const auto job = number_in<unsigned>(environment, kJob);
  // If hororun itself runs in a rank of another job, mpirun and its daemons inherit the environment
  // of that rank, but are not ranks.
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

// If the job has one host, or if all its ranks were found on this host, no rank runs on another
// host.
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
