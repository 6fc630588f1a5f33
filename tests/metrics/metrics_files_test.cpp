#include "horo/metrics/metrics_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "horo/base/error.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo::metrics {
namespace {

using observe::TemporaryDirectory;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(MetricsFiles, AppendsLinesAndReplacesPage) {
  const TemporaryDirectory directory;
  const auto slot = directory.path() / "new" / "slot";
  MetricsFiles files(slot, 12);
  EXPECT_TRUE(files.append("{1}\n"));
  EXPECT_TRUE(files.append("{2}\n{3}\n"));
  EXPECT_TRUE(files.replace_page("first and longer\n"));
  EXPECT_TRUE(files.replace_page("second\n"));
  EXPECT_EQ(contents(slot / "rank.12.jsonl"), "{1}\n{2}\n{3}\n");
  EXPECT_EQ(contents(slot / "rank.12.prom"), "second\n");
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(slot)) {
    (void)entry;
    ++count;
  }
  EXPECT_EQ(count, 2u) << "no temporary file stays";
}

TEST(MetricsFiles, KeepsOldLinesExceptIncompleteOne) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("rank.0.jsonl");
  const std::string whole = std::string(5000, 'x') + "\n{2}\n";
  std::ofstream(path) << whole << std::string(10000, 'y');
  ASSERT_TRUE(MetricsFiles(directory.path(), 0).append("{3}\n"));
  EXPECT_EQ(contents(path), whole + "{3}\n");
  std::ofstream(path) << "no line at all";
  ASSERT_TRUE(MetricsFiles(directory.path(), 0).append("{4}\n"));
  EXPECT_EQ(contents(path), "{4}\n");
}

TEST(MetricsFiles, NamesUnwritablePath) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("file")) << "x";
  std::filesystem::create_directory(directory.file("rank.1.jsonl"));
  std::filesystem::create_directory(directory.file("rank.2.prom"));
  const auto error_of = [](const std::filesystem::path& slot, int rank) -> std::string {
    try {
      const MetricsFiles files(slot, rank);
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(error_of(directory.path() / "file" / "sub", 0),
              testing::HasSubstr("file/sub: Not a directory"));
  EXPECT_THAT(error_of(directory.path(), 1), testing::HasSubstr("rank.1.jsonl: Is a directory"));
  EXPECT_THAT(error_of(directory.path(), 2), testing::HasSubstr("rank.2.prom: "));
}

TEST(MetricsFiles, WritesNothingWithoutRoom) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory.file("rank.0.jsonl"));
  MetricsFiles files(directory.path(), 0);
  EXPECT_FALSE(files.append("{1}\n"));
  std::filesystem::remove_all(directory.path());
  EXPECT_FALSE(files.replace_page("page\n"));
}

}  // namespace
}  // namespace horo::metrics
