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

TEST_F(ProgramSearch, ReportsErrors) {
  EXPECT_THAT(error_of((directory_ / "missing").string()), HasSubstr("does not exist"));
  EXPECT_THAT(error_of((directory_ / "notes").string()), HasSubstr("not executable; chmod +x"));
  EXPECT_THAT(error_of(directory_.string()), HasSubstr("is a directory"));
  EXPECT_THAT(error_of("missing"), HasSubstr("program 'missing' is not on PATH"));
  EXPECT_THAT(error_of("notes"), HasSubstr("not on PATH"));
}

TEST_F(ProgramSearch, ExplainsWhyFileCannotStart) {
  const auto error_of_text = [&](const std::string& text) -> std::string {
    std::ofstream(directory_ / "tool", std::ios::binary) << text;
    try {
      check_program_format(directory_ / "tool");
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  std::ifstream own("/proc/self/exe", std::ios::binary);
  std::string header(64, '\0');
  own.read(header.data(), 64);
  EXPECT_EQ(error_of_text(header), "no error");
  EXPECT_EQ(error_of_text("#! /bin/sh -e\ntrue\n"), "no error");
  EXPECT_THAT(error_of_text("true\n"), HasSubstr("neither a compiled program nor a script"));
  EXPECT_THAT(error_of_text(""), HasSubstr("an empty file"));
  EXPECT_THAT(error_of_text("#!/no/such\n"), HasSubstr("the interpreter '/no/such'"));
  EXPECT_THAT(error_of_text("#!/bin/sh\r\ntrue\r\n"), HasSubstr("carriage return"));
  header[18] = static_cast<char>(243);  // RISC-V
  header[19] = 0;
  EXPECT_THAT(error_of_text(header), HasSubstr("is built for riscv, but this machine is"));
}

}  // namespace
}  // namespace horo
