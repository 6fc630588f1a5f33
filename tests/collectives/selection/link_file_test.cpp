#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "collectives/selection/link_cost.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr JobShape kShape{4, 8};
constexpr LinkCost kLink{1.0 / 3e4, 8.123456789012345e-9, 1e-10};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::string error_of_text(std::string_view text) {
  return error_of([&] { find_link(text, kShape, "/links"); });
}

TEST(LinkFile, RoundTripsExactly) {
  EXPECT_EQ(find_link(link_line(kShape, kLink), kShape, "f"), kLink);
}

TEST(LinkFile, FindsShapeOfJob) {
  const std::string text = "# remark\n\n" + link_line({2, 2}, {1, 2, 3}) + "\n" +
                           link_line(kShape, kLink) + "\n" + link_line({4, 4}, {4, 5, 6}) + "\n";
  EXPECT_EQ(find_link(text, kShape, "f"), kLink);
  EXPECT_EQ(find_link(text, {2, 2}, "f"), (LinkCost{1, 2, 3}));
  EXPECT_EQ(find_link(text, {8, 8}, "f"), std::nullopt);
  EXPECT_EQ(find_link("", kShape, "f"), std::nullopt);
}

TEST(LinkFile, RejectsMalformedLineWithPosition) {
  EXPECT_THAT(error_of_text("# one\nnodes=4 ranks=8 alpha=1 beta=1\n"),
              AllOf(HasSubstr("HORO_LINK_FILE"), HasSubstr("/links:2"),
                    HasSubstr("'gamma=...' is missing"), HasSubstr("remove the file")));
  for (const char* text :
       {"nonsense", "nodes=4 ranks=8 alpha=x beta=1 gamma=1",
        "nodes=4 ranks=8 alpha=-1 beta=1 gamma=1", "nodes=4 ranks=8 alpha=inf beta=1 gamma=1",
        "nodes=4 ranks=8 alpha=0 beta=1 gamma=1", "nodes=4 ranks=8 alpha=1 beta=1 gamma=1 delta=2",
        "ranks=8 nodes=4 alpha=1 beta=1 gamma=1", "nodes=3 ranks=8 alpha=1 beta=1 gamma="})
    EXPECT_THAT(error_of_text(text), HasSubstr("/links:")) << text;
}

TEST(LinkFile, FirstLineOfShapeWins) {
  const std::string text = link_line(kShape, kLink) + "\n" + link_line(kShape, {9, 9, 9}) + "\n";
  EXPECT_EQ(find_link(text, kShape, "f"), kLink);
}

TEST(LinkFile, CreatesAndAppends) {
  const std::string path = testing::TempDir() + "horo_links_" + std::to_string(getpid());
  const LineFile file("HORO_LINK_FILE", path);
  EXPECT_EQ(file.read(), std::nullopt);
  add_to_link_file(file, kShape, kLink);
  add_to_link_file(file, {2, 2}, {1, 2, 3});
  const std::string text = file.read().value();
  EXPECT_THAT(text, testing::StartsWith("# "));
  EXPECT_EQ(find_link(text, kShape, path), kLink);
  EXPECT_EQ(find_link(text, {2, 2}, path), (LinkCost{1, 2, 3}));
  std::filesystem::remove(path);
}

TEST(LinkFile, NamesUnusableFile) {
  const std::string folder = testing::TempDir();
  EXPECT_THAT(error_of([&] {
                add_to_link_file(LineFile("HORO_LINK_FILE", folder + "/none/links"), kShape, kLink);
              }),
              AllOf(HasSubstr("/none/links cannot be written"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { LineFile("HORO_LINK_FILE", folder).read(); }),
              HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace horo::collectives
