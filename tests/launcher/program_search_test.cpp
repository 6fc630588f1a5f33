#include "launcher/program_search.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "horo/base/error.h"

namespace horo {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProgramSearch : public testing::Test {
 protected:
  ProgramSearch() {
    directory_ = fs::temp_directory_path() / ("horo_program_search_" + std::to_string(getpid()));
    fs::create_directories(directory_);
    std::ofstream(directory_ / "tool") << "#!/bin/sh\n";
    fs::permissions(directory_ / "tool", fs::perms::owner_all);
    std::ofstream(directory_ / "notes") << "text\n";
  }
  ~ProgramSearch() override { fs::remove_all(directory_); }

  std::string error_of(const std::string& program) const {
    try {
      find_program(program, directory_.string());
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path directory_;
};

TEST_F(ProgramSearch, FindsByPathAndByName) {
  const std::string tool = directory_ / "tool";
  EXPECT_EQ(find_program(tool, ""), tool);
  EXPECT_EQ(find_program("tool", "/nowhere:" + directory_.string()), tool);
}

TEST_F(ProgramSearch, SaysWhatIsWrong) {
  EXPECT_THAT(error_of((directory_ / "missing").string()), HasSubstr("does not exist"));
  EXPECT_THAT(error_of((directory_ / "notes").string()), HasSubstr("not executable; chmod +x"));
  EXPECT_THAT(error_of(directory_.string()), HasSubstr("is a directory"));
  EXPECT_THAT(error_of("missing"), HasSubstr("program 'missing' is not on PATH"));
  EXPECT_THAT(error_of("notes"), HasSubstr("not on PATH"));
}

}  // namespace
}  // namespace horo
