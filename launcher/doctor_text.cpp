#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "horo/base/printable.h"
#include "horo/observe/missing_operations.h"
#include "launcher/doctor_report.h"

namespace horo {
namespace {

using observe::FlightLog;
using observe::OpenOperation;
using observe::RankSnapshot;

constexpr std::size_t kColumns = 7;
constexpr std::size_t kLongestCell = 36;
using Row = std::array<std::string, kColumns>;

// Between two characters of UTF-8.
std::string cut(const std::string& text) {
  if (text.size() <= kLongestCell) return text;
  std::size_t end = kLongestCell - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string waiting_for(const RankSnapshot& rank, observe::WallTime now) {
  if (!rank.pause.empty()) return fmt::format("(pause '{}')", rank.pause);
  if (rank.open.empty() && rank.unlisted > 0) return fmt::format("{} operations", rank.unlisted);
  if (rank.open.empty()) return rank.phase.empty() ? "-" : fmt::format("(in '{}')", rank.phase);
  const OpenOperation& oldest = rank.open.front();
  const std::uint64_t others = rank.open.size() - 1 + rank.unlisted;
  const std::string more = others == 0 ? "" : fmt::format(" +{}", others);
  return fmt::format("{}{}, {}", cut(oldest.name), more, observe::name_age(now - oldest.submitted));
}

std::string last_finished(const RankSnapshot& rank, observe::WallTime now) {
  if (rank.last_finished.empty()) return "-";
  return fmt::format("{}, {} ago", cut(rank.last_finished),
                     observe::name_age(now - rank.last_finished_at));
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> width{};
  for (const Row& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < kColumns; ++c) line += fmt::format("{:<{}}  ", row[c], width[c]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string date_of(observe::WallTime time) {
  const std::time_t seconds = time / 1'000'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(seconds));
}

}  // namespace

std::string to_text(const DoctorReport& report) {
  std::string text = fmt::format(
      "{}: a job of {} rank{}, begun {}, seen {}\n\n", printable(report.directory.string()),
      report.size, report.size == 1 ? "" : "s", date_of(report.logs[0].begun), date_of(report.now));
  text += verdict_text(report) + "\n\n";
  std::vector<Row> rows = {
      {"rank", "host", "pid", "state", "finished", "last finished", "waiting for"}};
  constexpr std::size_t kMostRows = 64;
  for (std::size_t i = 0; i < report.logs.size() && i < kMostRows; ++i) {
    const RankSnapshot& rank = report.snapshots[i];
    rows.push_back({std::to_string(rank.rank), cut(rank.host), std::to_string(rank.pid),
                    state_text(report.logs[i], rank), std::to_string(rank.finished),
                    last_finished(rank, report.now), waiting_for(rank, report.now)});
  }
  text += table(rows);
  if (report.logs.size() > kMostRows)
    text +=
        fmt::format("... and {} more ranks; --json has them all\n", report.logs.size() - kMostRows);
  for (const std::string& problem : report.problems) text += "left aside: " + problem + "\n";
  return text;
}

}  // namespace horo
