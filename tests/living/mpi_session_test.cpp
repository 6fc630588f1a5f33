// A program with MPI sessions: MPI_Init is never called.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "horo/horo.h"
#include "horo/mpi_bootstrap.h"

namespace horo {
namespace {

TEST(MpiSessions, ContextOutlivesSession) {
  MPI_Session session = MPI_SESSION_NULL;
  ASSERT_EQ(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
  MPI_Group group = MPI_GROUP_NULL;
  ASSERT_EQ(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_SUCCESS);
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_create_from_group(group, "horo", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
            MPI_SUCCESS);
  int size = 0;
  MPI_Comm_size(comm, &size);
  Context ctx = init(bootstrap_over(comm));
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);

  ASSERT_EQ(ctx.size(), size);
  std::vector<float> values(10000, static_cast<float>(ctx.rank() + 1));
  ctx.allreduce(TensorView(values), {.name = "values", .op = ReduceOp::kSum});
  EXPECT_EQ(values[9999], static_cast<float>(size * (size + 1)) / 2);
  const std::vector<NamedTensor> gradients = {{"g", TensorView(values)}};
  GradientSync sync(ctx, gradients);
  values.assign(values.size(), static_cast<float>(ctx.rank()));
  sync.exchange();
  EXPECT_EQ(values[5000], static_cast<float>(size - 1) / 2);
}

}  // namespace
}  // namespace horo
