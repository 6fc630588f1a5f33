#include "horo/base/device/loaded_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "horo/base/error.h"

namespace horo::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const DeviceError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(LoadedLibrary, FindsFunctions) {
  const LoadedLibrary math("The library of mathematics", "libm.so.6", "/absent/libm.so");
  double (*root)(double) = nullptr;
  math.find("sqrt", root);
  EXPECT_EQ(root(144), 12);
}

TEST(LoadedLibrary, FallsBackOnThePathItWasBuiltWith) {
  const LoadedLibrary math("The library of mathematics", "libhoro_absent.so.1", "libm.so.6");
  double (*root)(double) = nullptr;
  EXPECT_NO_THROW(math.find("sqrt", root));
}

TEST(LoadedLibrary, OneThatIsMissingIsNamedWithTheRemedy) {
  EXPECT_THAT(error_of([] { LoadedLibrary("cuXYZ", "libhoro_absent.so.1", "/absent/libxyz.so"); }),
              AllOf(HasSubstr("cuXYZ cannot be loaded: "), HasSubstr("/absent/libxyz.so"),
                    HasSubstr("LD_LIBRARY_PATH"), Not(HasSubstr("\n"))));
}

TEST(LoadedLibrary, AFunctionThatIsMissingIsNamed) {
  const LoadedLibrary math("The library of mathematics", "libm.so.6", "");
  double (*function)(double) = nullptr;
  EXPECT_THAT(error_of([&] { math.find("horo_absent", function); }),
              AllOf(HasSubstr("The library of mathematics"), HasSubstr("horo_absent")));
}

}  // namespace
}  // namespace horo::device
