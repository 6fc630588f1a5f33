// main() for tests that mpirun starts. Only rank 0 prints passed tests; every rank prints failures.
// A rank with a failure aborts the job, so that the other ranks do not block.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <memory>

namespace {

class RankPrinter : public testing::EmptyTestEventListener {
 public:
  RankPrinter(int rank, std::unique_ptr<testing::TestEventListener> printer)
      : rank_(rank), printer_(std::move(printer)) {}

  void OnTestStart(const testing::TestInfo& info) override {
    if (rank_ == 0) printer_->OnTestStart(info);
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] ", rank_);
    printer_->OnTestPartResult(result);
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    if (rank_ == 0 || info.result()->Failed()) printer_->OnTestEnd(info);
    if (info.result()->Failed()) {
      std::fflush(nullptr);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

 private:
  int rank_;
  std::unique_ptr<testing::TestEventListener> printer_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  std::unique_ptr<testing::TestEventListener> printer(
      listeners.Release(listeners.default_result_printer()));
  listeners.Append(new RankPrinter(rank, std::move(printer)));
  if (provided < MPI_THREAD_MULTIPLE) {
    std::fprintf(stderr, "this MPI does not provide MPI_THREAD_MULTIPLE\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int result = RUN_ALL_TESTS();
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);
  MPI_Finalize();
  return 0;
}
