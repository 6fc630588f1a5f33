#include "launcher/machine.h"

#include <gtest/gtest.h>

namespace horo {
namespace {

TEST(Machine, HasCoresAndAName) {
  const Machine machine = inspect_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_FALSE(machine.host_name.empty());
  EXPECT_FALSE(variable_in(machine.environment, "PATH").empty());
}

TEST(VariableIn, MatchesWholeNames) {
  const std::vector<std::string> environment = {"PATHS=x", "PATH=/bin:/usr/bin", "EMPTY="};
  EXPECT_EQ(variable_in(environment, "PATH"), "/bin:/usr/bin");
  EXPECT_EQ(variable_in(environment, "EMPTY"), "");
  EXPECT_EQ(variable_in(environment, "PAT"), "");
}

TEST(CoresWithinQuota, RoundsUpAndNeverAddsCores) {
  EXPECT_EQ(cores_within_quota("max 100000", 8), 8);
  EXPECT_EQ(cores_within_quota("200000 100000", 8), 2);
  EXPECT_EQ(cores_within_quota("150000 100000", 8), 2);
  EXPECT_EQ(cores_within_quota("10000 100000", 8), 1);
  EXPECT_EQ(cores_within_quota("900000 100000", 8), 8);
  EXPECT_EQ(cores_within_quota("", 8), 8);
  EXPECT_EQ(cores_within_quota("nonsense", 8), 8);
}

}  // namespace
}  // namespace horo
