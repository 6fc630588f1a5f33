#include "launcher/proc_status.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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

std::optional<ProcessId> running_process(pid_t pid) {
  const std::string text = contents_of(fmt::format("/proc/{}/stat", pid));
  // "PID (NAME) STATE PARENT ..."; the name may hold blanks and parentheses.
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
  // A main thread that called pthread_exit() is a zombie while the other threads run.
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

}  // namespace horo
