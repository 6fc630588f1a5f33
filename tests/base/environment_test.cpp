#include "horo/base/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "horo/base/error.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

ParsedEnvironment parse(std::vector<std::string> entries) { return parse_environment(entries); }

TEST(Environment, DefaultsMatchTable) {
  const ParsedEnvironment parsed = parse({});
  EXPECT_TRUE(parsed.warnings.empty());
  EXPECT_EQ(parsed.settings.timeout, 5min);
  EXPECT_EQ(parsed.settings.bucket_bytes, 4u << 20);
  ASSERT_EQ(parsed.value_of.size(), settings_table().size());
  for (std::size_t i = 0; i < parsed.value_of.size(); ++i)
    EXPECT_EQ(parsed.value_of[i], settings_table()[i].default_value);
}

TEST(Environment, SettingsHaveDistinctNamesAndMeaning) {
  std::set<std::string_view> names;
  for (const SettingInfo& info : settings_table()) {
    EXPECT_TRUE(info.name.starts_with("HORO_"));
    EXPECT_FALSE(info.meaning.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), settings_table().size());
}

TEST(Environment, ReadsValuesAndIgnoresOtherVariables) {
  const ParsedEnvironment parsed =
      parse({"PATH=/bin", "HORO_TEST_DELAY=50us", "HORO_BUCKET_BYTES=64MiB", "HORO_SPIN=500us",
             "HORO_ALGORITHM=ring", "HORO_STORES=plain", "HORO_ALLREDUCE=halving",
             "HORO_LINK_FILE=/x/links", "HORO_INTERFACES=ib0,eth0"});
  EXPECT_EQ(parsed.settings.bucket_bytes, 64u << 20);
  EXPECT_EQ(parsed.settings.spin, 500us);
  EXPECT_EQ(parsed.settings.algorithm, Algorithm::kRing);
  EXPECT_EQ(parsed.settings.stores, Stores::kPlain);
  EXPECT_EQ(parsed.settings.allreduce, MessageAllreduce::kHalving);
  EXPECT_EQ(parsed.settings.link_file, "/x/links");
  EXPECT_THAT(parsed.settings.interfaces, ::testing::ElementsAre("ib0", "eth0"));
  EXPECT_THAT(parse({"HORO_INTERFACES=auto"}).settings.interfaces, ::testing::IsEmpty());
  EXPECT_TRUE(parsed.warnings.empty());
  EXPECT_EQ(parse({}).settings.link_file, "");
}

TEST(Environment, ParsesTuningSetting) {
  EXPECT_FALSE(parse({}).settings.autotune);
  EXPECT_TRUE(parse({"HORO_AUTOTUNE=on"}).settings.autotune);
  EXPECT_EQ(parse({"HORO_AUTOTUNE=on"}).settings.autotune_file, "");
  EXPECT_TRUE(parse({"HORO_AUTOTUNE=./on"}).settings.autotune);
  EXPECT_EQ(parse({"HORO_AUTOTUNE=./on"}).settings.autotune_file, "./on");
}

TEST(Environment, LimitsBlocksOfNccl) {
  EXPECT_EQ(parse({}).settings.nccl_max_ctas, 0u);
  EXPECT_EQ(parse({"HORO_NCCL_MAX_CTAS=16"}).settings.nccl_max_ctas, 16u);
  EXPECT_THROW(parse({"HORO_NCCL_MAX_CTAS=65"}), InvalidArgument);
  EXPECT_THROW(parse({"HORO_NCCL_MAX_CTAS=-1"}), InvalidArgument);
}

TEST(Environment, RanksShareGpusOnlyOnRequest) {
  EXPECT_FALSE(parse({}).settings.gpu_oversubscribe);
  EXPECT_THROW(parse({"HORO_GPU_OVERSUBSCRIBE=2"}), InvalidArgument);
  EXPECT_THROW(parse({"HORO_GPU_OVERSUBSCRIBE="}), InvalidArgument);
}

TEST(Environment, SwitchAcceptsAllSpellings) {
  for (const std::string on : {"on", "1", "true", "yes"}) {
    EXPECT_TRUE(parse({"HORO_GPU_OVERSUBSCRIBE=" + on}).settings.gpu_oversubscribe);
    const Settings tuned = parse({"HORO_AUTOTUNE=" + on}).settings;
    EXPECT_TRUE(tuned.autotune);
    EXPECT_EQ(tuned.autotune_file, "");
    EXPECT_THROW(parse({"HORO_METRICS=" + on}), InvalidArgument) << "it names no directory";
    EXPECT_THROW(parse({"HORO_FLIGHT_DIR=" + on}), InvalidArgument);
  }
  for (const std::string off : {"off", "0", "false", "no"}) {
    const std::vector<std::string> oversubscribed = {"HORO_GPU_OVERSUBSCRIBE=on",
                                                     "HORO_GPU_OVERSUBSCRIBE=" + off};
    EXPECT_FALSE(parse(oversubscribed).settings.gpu_oversubscribe);
    EXPECT_FALSE(parse({"HORO_AUTOTUNE=on", "HORO_AUTOTUNE=" + off}).settings.autotune);
    EXPECT_EQ(parse({"HORO_METRICS=/x", "HORO_METRICS=" + off}).settings.metrics_dir, "");
  }
  EXPECT_EQ(parse({"HORO_METRICS=./1"}).settings.metrics_dir, "./1");
  EXPECT_EQ(parse({"HORO_FLIGHT_DIR=off"}).settings.flight_dir, "off");
}

TEST(Environment, WarnsOfUnknownVariableWithNearestName) {
  const ParsedEnvironment parsed = parse({"HORO_BUKET_BYTES=1MiB", "HORO_QWERTZUIOP=1"});
  ASSERT_EQ(parsed.warnings.size(), 2u);
  EXPECT_NE(parsed.warnings[0].find("did you mean HORO_BUCKET_BYTES?"), std::string::npos);
  EXPECT_EQ(parsed.warnings[1].find("did you mean"), std::string::npos);
}

TEST(Environment, ErrorNamesVariableAndAcceptedValues) {
  for (const char* entry :
       {"HORO_TIMEOUT=soon", "HORO_TIMEOUT=0", "HORO_METRICS=1",
        "HORO_AUTOTUNE=", "HORO_BUCKET_BYTES=0", "HORO_ALGORITHM=fast", "HORO_LOG_LEVEL=loud",
        "HORO_CACHE_CAPACITY=-1", "HORO_DIRECT_BYTES=1GiB", "HORO_SERVERS=0",
        "HORO_INTERFACES=eth0,", "HORO_SEGMENT_BYTES=12", "HORO_SPIN=", "HORO_STORES=Plain",
        "HORO_ALLREDUCE=tree"}) {
    try {
      parse({entry});
      FAIL() << entry;
    } catch (const InvalidArgument& error) {
      const std::string name = std::string(entry).substr(0, std::string(entry).find('='));
      EXPECT_EQ(std::string(error.what()).find(name), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find("accepts"), std::string::npos) << error.what();
    }
  }
}

TEST(Environment, DetectsLauncher) {
  const std::vector<std::string> alone = {"PATH=/bin", "HOME=/root"};
  const std::vector<std::string> started = {"PATH=/bin", "OMPI_COMM_WORLD_SIZE=4"};
  EXPECT_FALSE(is_started_by_launcher(alone));
  EXPECT_TRUE(is_started_by_launcher(started));
}

TEST(NearestMatch, IsWithinThirdOfLength) {
  const std::string_view names[] = {"alpha", "beta", "gamma"};
  EXPECT_EQ(nearest_match("gama", names), "gamma");
  EXPECT_EQ(nearest_match("alpha", names), "alpha");
  EXPECT_EQ(nearest_match("gammma", names), "gamma");
  EXPECT_EQ(nearest_match("alhpa", names), std::nullopt);
  EXPECT_EQ(nearest_match("xxxxx", names), std::nullopt);
  EXPECT_EQ(nearest_match(std::string(100, 'a'), names), std::nullopt);
}

TEST(EnvironmentMarkdown, HasRowForEverySetting) {
  const std::string text = environment_markdown();
  for (const SettingInfo& info : settings_table())
    EXPECT_NE(text.find("| `" + std::string(info.name) + "` |"), std::string::npos);
}

}  // namespace
}  // namespace horo
