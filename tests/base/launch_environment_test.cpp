#include "horo/base/system/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool is_mismatch(const std::vector<std::string>& environment, int world_size) {
  return read_launch_environment(environment).is_mpi_mismatch(world_size);
}

TEST(LaunchEnvironment, DetectsMismatchOfAllLaunchers) {
  EXPECT_TRUE(is_mismatch({"PATH=/bin", "PMI_RANK=1", "PMI_SIZE=3"}, 1));
  EXPECT_TRUE(is_mismatch({"OMPI_COMM_WORLD_SIZE=2"}, 1));
  EXPECT_TRUE(is_mismatch({"OMPI_COMM_WORLD_SIZE=2", "PMI_SIZE=3"}, 1));
}

TEST(LaunchEnvironment, AcceptsConsistentWorldSizes) {
  EXPECT_FALSE(is_mismatch({}, 1));
  EXPECT_FALSE(is_mismatch({"PMI_SIZE=3"}, 3));
  EXPECT_FALSE(is_mismatch({"PMI_SIZE=1"}, 1));
  // One launcher starts the other launcher.
  EXPECT_FALSE(is_mismatch({"OMPI_COMM_WORLD_SIZE=2", "PMI_SIZE=1"}, 1));
  EXPECT_FALSE(is_mismatch({"OMPI_COMM_WORLD_SIZE=2", "PMI_SIZE=3"}, 3));
  // mpirun starts its daemons with srun, or MPI itself spawned the processes.
  EXPECT_FALSE(is_mismatch({"OMPI_COMM_WORLD_SIZE=8", "SLURM_NTASKS=2"}, 8));
  EXPECT_FALSE(is_mismatch({"SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4"}, 1));
  EXPECT_FALSE(is_mismatch({"OMPI_COMM_WORLD_SIZE=4"}, 2));
  // These values are not numbers.
  EXPECT_FALSE(is_mismatch({"PMI_SIZE=", "OMPI_COMM_WORLD_SIZE=two", "PMI_SIZES=3"}, 1));
}

TEST(LaunchEnvironment, ErrorNamesSizesLibraryAndLauncher) {
  const LaunchEnvironment launch = read_launch_environment({"PMI_SIZE=3"});
  EXPECT_THAT(
      launch.describe_mpi_mismatch("Open MPI v4 (/usr/lib/libmpi.so)", "/usr/bin/mpiexec.hydra"),
      AllOf(HasSubstr("one of 3 (PMI_SIZE=3, by /usr/bin/mpiexec.hydra)"),
            HasSubstr("reports 1 process: Open MPI v4 (/usr/lib/libmpi.so)"),
            HasSubstr("unset PMI_SIZE")));
}

TEST(LaunchEnvironment, ReadsRankBeforeMpiIsInitialised) {
  EXPECT_EQ(launched_rank({"OMPI_COMM_WORLD_RANK=3", "PMI_RANK=1"}), 3);
  EXPECT_EQ(launched_rank({"PMI_RANK=0"}), 0);
  EXPECT_EQ(launched_rank({"MV2_COMM_WORLD_RANK=2"}), 2);
  EXPECT_EQ(launched_rank({"PMI_RANK=x", "RANK=5"}), std::nullopt);
}

TEST(LaunchEnvironment, WarnsOfSrunStepWithoutMpi) {
  EXPECT_THAT(warning_of_step_without_mpi({"SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_ID=0"}),
              AllOf(HasSubstr("4 tasks"), HasSubstr("--mpi=pmix")));
  EXPECT_THAT(warning_of_step_without_mpi({"SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_ID=0"}),
              IsEmpty());
  EXPECT_THAT(warning_of_step_without_mpi({"SLURM_NTASKS=4"}), IsEmpty());
  // This step ID belongs to the script of a batch job.
  EXPECT_THAT(warning_of_step_without_mpi({"SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_ID=4294967291"}),
              IsEmpty());
}

TEST(LaunchEnvironment, RecognisesLaunchersByName) {
  for (const char* program : {"mpirun", "mpirun.mpich", "mpiexec.hydra", "hydra_pmi_proxy",
                              "orterun", "orted", "prterun", "srun", "slurmstepd"})
    EXPECT_TRUE(is_launcher(program)) << program;
  for (const char* program : {"bash", "train_mnist", "python3"})
    EXPECT_FALSE(is_launcher(program)) << program;
}

TEST(LaunchEnvironment, IdentifiesJob) {
  const std::vector<std::string> environment = {
      "PMIX_NAMESPACE=7", "OMPI_MCA_orte_hnp_uri=7.0;tcp://a:1", "OMPI_COMM_WORLD_RANK=2",
      "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=3"};
  const auto job = launched_job(environment);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank, 2);
  EXPECT_EQ(job->size, 4);
  EXPECT_EQ(job->local_size, 3);
  auto later = environment;
  later[1] = "OMPI_MCA_orte_hnp_uri=7.0;tcp://a:2";
  EXPECT_NE(launched_job(later)->id, job->id);
  auto elsewhere = environment;
  elsewhere.push_back("OMPI_MCA_orte_local_daemon_uri=7.1;tcp://b:1");
  EXPECT_NE(launched_job(elsewhere)->id, job->id);
  auto incomplete = environment;
  incomplete.erase(incomplete.begin());
  EXPECT_FALSE(launched_job(incomplete));
}

}  // namespace
}  // namespace horo
