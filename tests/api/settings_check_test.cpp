#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "collectives/in_process/in_process_job.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "horo/runtime/job_agreement.h"

namespace horo {
namespace {

// Runs the check on three ranks with one setting each; returns the error of each.
std::vector<std::string> check(const std::vector<std::string>& setting_of_rank) {
  collectives::InProcessJob job(static_cast<int>(setting_of_rank.size()));
  std::vector<std::string> texts(setting_of_rank.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < setting_of_rank.size(); ++rank)
      threads.emplace_back([&, rank] {
        const auto transport = job.transport(static_cast<int>(rank));
        const auto peers = transport->make_point_to_point();
        collectives::RingCollectives ring(*peers, 1024);
        try {
          check_settings_agree(parse_environment(std::span(&setting_of_rank[rank], 1)), ring,
                               transport->topology());
        } catch (const MismatchError& error) {
          texts[rank] = error.what();
        }
      });
  }
  return texts;
}

TEST(SettingsCheck, EqualSettingsPass) {
  for (const std::string& text :
       check({"HORO_BUCKET_BYTES=1MiB", "HORO_BUCKET_BYTES=1MiB", "HORO_BUCKET_BYTES=1MiB"}))
    EXPECT_EQ(text, "");
}

TEST(SettingsCheck, EquivalentTextsPass) {
  for (const auto& texts : {check({"HORO_BUCKET_BYTES=1MiB", "HORO_BUCKET_BYTES=1024 KiB"}),
                            check({"HORO_GPU_OVERSUBSCRIBE=on", "HORO_GPU_OVERSUBSCRIBE=1"}),
                            check({"HORO_AUTOTUNE=off", "HORO_AUTOTUNE=0"}),
                            check({"HORO_TIMEOUT=5min", "HORO_LOG_LEVEL=info"})})
    EXPECT_THAT(texts, ::testing::Each(""));
}

TEST(SettingsCheck, RejectsDifferentValuesOnEveryRank) {
  const auto texts =
      check({"HORO_BUCKET_BYTES=1MiB", "HORO_BUCKET_BYTES=1MiB", "HORO_BUCKET_BYTES=2MiB"});
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_NE(texts[0].find("HORO_BUCKET_BYTES=1MiB on rank 0"), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find("HORO_BUCKET_BYTES=2MiB on rank 2"), std::string::npos) << texts[0];
}

TEST(SettingsCheck, LogLevelsMayDiffer) {
  for (const std::string& text : check({"HORO_LOG_LEVEL=off", "HORO_LOG_LEVEL=debug"}))
    EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace horo
