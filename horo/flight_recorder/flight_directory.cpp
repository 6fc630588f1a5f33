#include "horo/flight_recorder/flight_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "horo/base/error.h"
#include "horo/flight_recorder/flight_reader.h"

namespace horo::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kPrefix = "rank.";
constexpr std::string_view kSuffix = ".flight";
constexpr std::string_view kStopFile = "stopped";
constexpr std::string_view kEndFile = "ended";

std::optional<int> rank_of(const fs::path& file) {
  const std::string name = file.filename().string();
  std::string_view text = name;
  if (!text.starts_with(kPrefix) || !text.ends_with(kSuffix)) return std::nullopt;
  text = text.substr(kPrefix.size(), text.size() - kPrefix.size() - kSuffix.size());
  int rank = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (status != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return rank;
}

void make_directory(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

// Rejects a directory of another user and a link. The base is usually in a world-writable
// directory, where another user can create either of them under this name.
void require_own(const fs::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
    throw Error(fmt::format("{} is not a directory owned by this user", path.string()));
}

bool is_job_running(const fs::path& job) {
  const std::vector<fs::path> files = flight_files(job);
  return std::any_of(files.begin(), files.end(), [](const fs::path& file) {
    try {
      return is_writer_alive(read_flight(file.string()));
    } catch (const Error&) {
      return false;
    }
  });
}

}  // namespace

fs::path flight_base() {
  std::error_code ignored;
  fs::path temporary = fs::temp_directory_path(ignored);
  if (temporary.empty()) temporary = "/tmp";
  return temporary / fmt::format("horo-{}", geteuid());
}

std::string flight_file_name(int rank) { return fmt::format("{}{}{}", kPrefix, rank, kSuffix); }

std::optional<FlightLocation> flight_location(std::string_view setting, std::uint64_t job) {
  if (setting == "off") return std::nullopt;
  if (setting == kAuto) return FlightLocation{flight_base() / fmt::format("{:016x}", job), true};
  if (setting.starts_with(kAuto) && setting.substr(kAuto.size()).starts_with(':'))
    return FlightLocation{flight_base() / setting.substr(kAuto.size() + 1), true};
  return FlightLocation{fs::path(setting), false};
}

void create_flight_directory(const FlightLocation& location) {
  if (!location.is_default) {
    std::error_code error;
    fs::create_directories(location.directory, error);
    if (error) throw Error(fmt::format("{}: {}", location.directory.string(), error.message()));
    return;
  }
  // A rank of another job may remove the empty base between the two calls of mkdir().
  const fs::path base = location.directory.parent_path();
  for (int attempt = 0; attempt < 3; ++attempt) {
    make_directory(base);
    require_own(base);
    if (mkdir(location.directory.c_str(), 0700) == 0 || errno != ENOENT) break;
  }
  make_directory(location.directory);
  require_own(location.directory);
}

// rmdir() fails for a directory that is not empty. So the directory remains until the last rank has
// removed its file.
void remove_flight(const FlightLocation& location, int rank) noexcept {
  unlink((location.directory / flight_file_name(rank)).c_str());
  if (rmdir(location.directory.c_str()) == 0) rmdir(location.directory.parent_path().c_str());
}

void record_stop_request(const fs::path& directory, const StopRequest& order) noexcept {
  std::ofstream(directory / kStopFile) << order.signal << ' ' << order.at << '\n';
}

std::optional<StopRequest> read_stop_request(const fs::path& directory) {
  StopRequest order;
  if (std::ifstream(directory / kStopFile) >> order.signal >> order.at) return order;
  return std::nullopt;
}

void record_first_end(const fs::path& directory, const FirstEnd& end) noexcept {
  std::ofstream(directory / kEndFile) << end.rank << ' ' << end.at << ' ' << end.how << '\n';
}

std::optional<FirstEnd> read_first_end(const fs::path& directory) {
  FirstEnd end;
  std::ifstream file(directory / kEndFile);
  if (file >> end.rank >> end.at && std::getline(file >> std::ws, end.how)) return end;
  return std::nullopt;
}

void prune_flights(const fs::path& base) noexcept {
  try {
    const std::vector<fs::path> jobs = flight_jobs(base);
    for (std::size_t i = kKeptJobs; i < jobs.size(); ++i) {
      if (fs::file_time_type::clock::now() - fs::last_write_time(jobs[i]) < kKeptAtLeast) continue;
      if (is_job_running(jobs[i])) continue;
      for (const fs::path& file : flight_files(jobs[i])) unlink(file.c_str());
      for (const std::string_view file : {kStopFile, kEndFile}) unlink((jobs[i] / file).c_str());
      rmdir(jobs[i].c_str());
    }
  } catch (const std::exception&) {  // NOLINT: a later call removes the rest
  }
}

std::vector<fs::path> flight_jobs(const fs::path& base) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (!entry.is_directory(ignored) || flight_files(entry.path()).empty()) continue;
    found.emplace_back(fs::last_write_time(entry.path(), ignored), entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> jobs;
  for (auto& [time, path] : found) jobs.push_back(std::move(path));
  return jobs;
}

std::vector<fs::path> flight_files(const fs::path& directory) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (const auto rank = rank_of(entry.path())) found.emplace_back(*rank, entry.path());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  for (auto& [rank, path] : found) files.push_back(std::move(path));
  return files;
}

}  // namespace horo::observe
