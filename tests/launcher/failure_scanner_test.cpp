#include "launcher/failure_scanner.h"

#include <gtest/gtest.h>

namespace horo {
namespace {

std::string first_failure(std::string_view text, std::size_t piece = 1000) {
  FailureScanner scanner;
  for (std::size_t i = 0; i < text.size(); i += piece) scanner.feed(text.substr(i, piece));
  return scanner.failure() ? describe(*scanner.failure()) : "none";
}

constexpr std::string_view kSignal =
    "some output\n-----\nmpirun noticed that process rank 12 with PID 0 on node b-1 exited on "
    "signal 11 "
    "(Segmentation fault).\n-----\n";
constexpr std::string_view kExit =
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: [[31116,1],3]\n  Exit code:    7\n----\n";
constexpr std::string_view kAbort =
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 9.\n";

TEST(FailureScanner, ReadsASignal) {
  EXPECT_EQ(first_failure(kSignal),
            "rank 12 (host b-1) was killed by signal 11 (Segmentation fault)");
}

TEST(FailureScanner, ReadsAnExitCode) {
  EXPECT_EQ(first_failure(kExit), "rank 3 exited with code 7");
}

TEST(FailureScanner, ReadsAnAbort) {
  EXPECT_EQ(first_failure(kAbort), "rank 1 called MPI_Abort with code 9");
}

TEST(FailureScanner, ReadsExitWithoutInitOrFinalize) {
  constexpr std::string_view kImproper =
      "mpirun has exited due to process rank 1 with PID 0 on\nnode b-1 exiting improperly. There "
      "are three reasons this could occur:\n";
  EXPECT_EQ(
      first_failure(kImproper),
      "rank 1 (host b-1) exited with code 0 without horo::init() or without shutdown(), which "
      "other ranks called");
}

TEST(FailureScanner, ReadsWhySshCannotStartACommand) {
  FailureScanner scanner;
  scanner.feed(
      "text\nssh: Could not resolve hostname b.example: Name or service not known\r\nssh: x\n");
  EXPECT_EQ(scanner.remote_shell_error(),
            "ssh: Could not resolve hostname b.example: Name or service not known");
  EXPECT_FALSE(scanner.failure());
  FailureScanner other;
  other.feed("me@b: Permission denied (publickey,password).\r\n");
  EXPECT_EQ(other.remote_shell_error(), "me@b: Permission denied (publickey,password)");
}

TEST(FailureScanner, AcceptsPiecesOfAnySize) {
  for (std::size_t piece = 1; piece < 40; ++piece)
    EXPECT_EQ(first_failure(kExit, piece), first_failure(kExit));
}

TEST(FailureScanner, KeepsFirstFailure) {
  EXPECT_EQ(first_failure(std::string(kAbort) + std::string(kSignal)), first_failure(kAbort));
}

TEST(FailureScanner, FindsNothingInOtherText) {
  EXPECT_EQ(first_failure("Exit code: 3\nwith errorcode 1\nProcess name: x\n"), "none");
  EXPECT_EQ(first_failure(std::string(100000, 'x')), "none");
}

TEST(FailureScanner, NamesLostHost) {
  FailureScanner scanner;
  scanner.feed(
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[4514,0],0] on node a\n"
      "  Remote daemon: [[4514,0],3] on node b.example\n\n");
  EXPECT_EQ(scanner.lost_host(), "b.example");
  EXPECT_FALSE(scanner.failure());
}

}  // namespace
}  // namespace horo
