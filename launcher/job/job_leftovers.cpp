#include "launcher/job/job_leftovers.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <string>

#include "launcher/machine.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

/// Removes ".TEXT" from the end of `text` and returns TEXT, which has no dot. Returns an empty text
/// if there is no dot in `text`.
std::string_view take_last_field(std::string_view& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view field = text.substr(dot + 1);
  text = text.substr(0, dot);
  return field;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool belongs_to_this_user(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
}

template <class Predicate>
void remove_files(const fs::path& directory, const Predicate& is_unwanted) {
  std::error_code error;
  fs::directory_iterator file(directory, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error))
    if (is_unwanted(file->path().filename().string()) && belongs_to_this_user(*file))
      unlink(file->path().c_str());
}

}  // namespace

// Open MPI names its segments "vader_segment.HOST.USER.JOB.NUMBER", with the job number in
// hexadecimal digits. The host may contain dots, so the fields are read from the end.
bool is_segment_of(const MpiJob& job, std::string_view file_name) {
  const std::string_view number = take_last_field(file_name);
  const std::string_view job_text = take_last_field(file_name);
  const std::string_view user = take_last_field(file_name);
  unsigned id = 0;
  const auto [rest, status] =
      std::from_chars(job_text.data(), job_text.data() + job_text.size(), id, 16);
  if (status != std::errc{} || rest != job_text.data() + job_text.size()) return false;
  // All jobs of one mpirun have the same upper 16 bits of the job number.
  return file_name.starts_with("vader_segment.") && is_number(number) &&
         user == std::to_string(geteuid()) && id >> 16 == job.id >> 16;
}

bool is_session_directory(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string parent = path.parent_path().filename().string();
  std::string_view number = name;
  if (!name.starts_with("pid.") && !name.starts_with("jf.")) return false;
  return is_number(take_last_field(number)) && parent.starts_with("ompi.") &&
         parent.ends_with("." + std::to_string(geteuid()));
}

// Checks the name and the owner of each session directory before it removes the directory, because
// the path comes from the environment of a rank.
void remove_leftovers(const MpiJob& job, const fs::path& shared_memory) noexcept {
  try {
    std::error_code error;
    remove_files(shared_memory, [&](std::string_view name) { return is_segment_of(job, name); });
    for (const fs::path& session : job.session_directories) {
      if (!is_session_directory(session) || !belongs_to_this_user(session)) continue;
      fs::remove_all(session, error);
      fs::remove(session.parent_path(), error);  // fails if another job has a directory there
    }
  } catch (const std::exception&) {  // NOLINT: out of memory; the files stay
  }
}

void remove_segment_of_rank(const std::vector<std::string>& environment,
                            const fs::path& shared_memory) noexcept {
  try {
    const std::string_view job = variable_in(environment, "PMIX_NAMESPACE");
    const std::string_view local_rank = variable_in(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
    unsigned id = 0;
    const auto [rest, status] = std::from_chars(job.data(), job.data() + job.size(), id);
    if (status != std::errc{} || rest != job.data() + job.size() || local_rank.empty()) return;
    const std::string end = fmt::format(".{}.{:x}.{}", geteuid(), id, local_rank);
    remove_files(shared_memory, [&](std::string_view name) {
      return name.starts_with("vader_segment.") && name.ends_with(end);
    });
  } catch (const std::exception&) {  // NOLINT: out of memory; the file stays
  }
}

}  // namespace horo
