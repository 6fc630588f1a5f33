#include "horo/plan/tuning/tuning_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<Axis> kAxes = {{"bucket_bytes", {1024, 4096, 8192}, 1}, {"wire", {0, 1}, 0}};
constexpr TuningKey kKey{0xc0ffee, 2, 4};

std::optional<Choice> find(const std::string& text, const TuningKey& key = kKey) {
  return find_choice(text, key, kAxes, "tuned");
}

TEST(TuningFile, LineRoundTrips) {
  for (const Choice& choice : {Choice{0, 0}, Choice{2, 1}, Choice{1, 0}})
    EXPECT_EQ(find(tuning_line(kKey, kAxes, choice)), choice);
  EXPECT_EQ(tuning_line(kKey, kAxes, {2, 1}),
            "model=0000000000c0ffee nodes=2 ranks=4 bucket_bytes=8192 wire=1");
}

TEST(TuningFile, OtherModelOrJobShapeHasOwnLine) {
  const std::string text = std::string(kTuningFileExplanation) + "\n" +
                           tuning_line(kKey, kAxes, {2, 1}) + "\n" +
                           tuning_line({0xc0ffee, 4, 4}, kAxes, {0, 0}) + "\n";
  EXPECT_EQ(find(text), (Choice{2, 1}));
  EXPECT_EQ(find(text, {0xc0ffee, 4, 4}), (Choice{0, 0}));
  EXPECT_EQ(find(text, {0xc0ffef, 2, 4}), std::nullopt);
  EXPECT_EQ(find(""), std::nullopt);
}

TEST(TuningFile, LastLineOfKeyWins) {
  EXPECT_EQ(find(tuning_line(kKey, kAxes, {2, 1}) + "\n" + tuning_line(kKey, kAxes, {0, 1})),
            (Choice{0, 1}));
}

TEST(TuningFile, SkipsLinesOfOtherVersions) {
  const std::string key = "model=0000000000c0ffee nodes=2 ranks=4";
  for (const char* rest : {" bucket_bytes=4096", " bucket_bytes=4096 wire=1 more=1",
                           " bucket_bytes=5000 wire=1", " size=4096 wire=1", ""})
    EXPECT_EQ(find(key + rest), std::nullopt) << rest;
}

TEST(TuningFile, RejectsMalformedLineWithPosition) {
  for (const char* line : {"hello", "model=1 nodes=2", "model=1 ranks=2 nodes=3 wire=1",
                           "model=1 nodes=2 ranks=3 wire=many", "model=1 nodes=2 ranks=3 wire"}) {
    try {
      find(std::string("# head\n\n") + line);
      FAIL() << line;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("tuned:3:"), HasSubstr("remove the line"))) << line;
    }
  }
}

}  // namespace
}  // namespace horo::plan
