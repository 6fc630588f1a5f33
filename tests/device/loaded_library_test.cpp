#include "horo/device/loaded_library.h"

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

// Uses libraries of glibc that no other test has loaded: libanl, libresolv and libutil.
TEST(LoadedLibrary, PrefersLibraryOfBuildToSystem) {
  const LoadedLibrary built_with("X", "libresolv.so.2", "libanl.so.1");
  EXPECT_THAT(built_with.path(), HasSubstr("libanl.so.1"));
  const LoadedLibrary of_system("X", "libresolv.so.2", "/absent/libanl.so");
  EXPECT_THAT(of_system.path(), HasSubstr("libresolv.so.2"));
}

TEST(LoadedLibrary, PrefersLibraryOfProcess) {
  const LoadedLibrary of_process("X", "libm.so.6", "libutil.so.1");
  EXPECT_THAT(of_process.path(), HasSubstr("libm.so.6"));
}

TEST(LoadedLibrary, NamesMissingLibraryAndRemedy) {
  EXPECT_THAT(error_of([] { LoadedLibrary("cuXYZ", "libhoro_absent.so.1", "/absent/libxyz.so"); }),
              AllOf(HasSubstr("cuXYZ cannot be loaded: "), HasSubstr("libhoro_absent.so.1"),
                    HasSubstr("LD_LIBRARY_PATH"), Not(HasSubstr("\n"))));
}

TEST(LoadedLibrary, NamesMissingFunction) {
  const LoadedLibrary math("The library of mathematics", "libm.so.6", "");
  double (*function)(double) = nullptr;
  EXPECT_THAT(error_of([&] { math.find("horo_absent", function); }),
              AllOf(HasSubstr("The library of mathematics"), HasSubstr("horo_absent")));
  math.find_optional("sqrt", function);
  EXPECT_NE(function, nullptr);
  math.find_optional("horo_absent", function);
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace horo::device
