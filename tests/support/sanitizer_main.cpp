// main() of tests in sanitizer builds. Each parameterized test runs with at most three of its
// values: the first, the middle and the last. The sanitizers slow tests down, and most values
// differ in sizes only. Other builds run all values, and so does a sanitizer build with an explicit
// --gtest_filter.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace {

void exclude_values_between(const testing::TestSuite& suite, std::string& filter) {
  std::map<std::string, std::vector<std::string>> values_of_test;
  for (int i = 0; i < suite.total_test_count(); ++i) {
    const testing::TestInfo& test = *suite.GetTestInfo(i);
    const std::string name = test.name();
    if (test.value_param())
      values_of_test[name.substr(0, name.find('/'))].push_back(std::string(suite.name()) + '.' +
                                                               name);
  }
  for (const auto& [test, values] : values_of_test)
    for (std::size_t i = 1; i + 1 < values.size(); ++i)
      if (i != values.size() / 2) filter += ':' + values[i];
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string& filter = testing::GTEST_FLAG(filter);
  if (filter == "*") {
    filter = "-";
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i)
      exclude_values_between(*all.GetTestSuite(i), filter);
  }
  return RUN_ALL_TESTS();
}
