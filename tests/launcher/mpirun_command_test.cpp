#include "launcher/mpirun_command.h"

#include <gmock/gmock.h>

#include "horo/base/error.h"

namespace horo {
namespace {

using testing::HasSubstr;
using testing::Not;

Machine user_machine() { return {.host_name = "here", .cores = 8, .environment = {"PATH=/bin"}}; }

std::string line(std::vector<std::string> words, const Machine& machine = user_machine(),
                 const std::string& hostfile = "") {
  const LaunchOptions options = parse_launch_options(words);
  std::vector<Host> hosts;
  if (options.hosts) hosts = parse_host_list(*options.hosts);
  if (options.hostfile) hosts = parse_hostfile(hostfile, "f");
  return to_shell_line(compose_mpirun(options, hosts, machine));
}

std::string error_of(std::vector<std::string> words, const Machine& machine = user_machine(),
                     const std::string& hostfile = "") {
  try {
    line(words, machine, hostfile);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(MpirunCommand, OnThisMachine) {
  EXPECT_EQ(line({"-np", "4", "train", "--epochs", "2"}),
            "OMPI_MCA_opal_signal='' OMPI_MCA_shmem=mmap OMP_NUM_THREADS=2 mpirun -np 4 "
            "--oversubscribe --bind-to none "
            "-x OMP_NUM_THREADS "
            "train --epochs 2");
}

TEST(MpirunCommand, AsRoot) {
  Machine machine = user_machine();
  machine.is_root = true;
  EXPECT_EQ(line({"-np", "8", "train"}, machine),
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_opal_signal='' "
            "OMPI_MCA_shmem=mmap "
            "OMP_NUM_THREADS=1 "
            "mpirun -np 8 --oversubscribe --bind-to none -x OMP_NUM_THREADS train");
}

TEST(MpirunCommand, OnHosts) {
  EXPECT_EQ(line({"-H", "a:4,b", "train"}),
            "OMPI_MCA_opal_signal='' OMPI_MCA_shmem=mmap OMP_NUM_THREADS=2 mpirun -np 5 -H a:4,b:1 "
            "--bind-to none "
            "--mca oob_tcp_keepalive_time 189 "
            "--mca oob_tcp_keepalive_intvl 27 --mca oob_tcp_keepalive_probes 3 -x OMP_NUM_THREADS "
            "train");
  EXPECT_EQ(line({"-np", "2", "--hostfile", "my hosts", "train"}, user_machine(), "a slots=4\n"),
            "OMPI_MCA_opal_signal='' OMPI_MCA_shmem=mmap OMP_NUM_THREADS=4 mpirun -np 2 --hostfile "
            "'my hosts' "
            "--bind-to none --mca "
            "oob_tcp_keepalive_time 189 --mca oob_tcp_keepalive_intvl 27 --mca "
            "oob_tcp_keepalive_probes 3 -x OMP_NUM_THREADS train");
}

TEST(MpirunCommand, DetectsLostHostBeforeTimeout) {
  EXPECT_THAT(line({"-H", "a,b", "--env", "HORO_TIMEOUT=8s", "train"}),
              HasSubstr("--mca oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 1 --mca "
                        "oob_tcp_keepalive_probes 3"));
  EXPECT_THAT(line({"-H", "here:2", "train"}), Not(HasSubstr("keepalive")));
  EXPECT_THAT(line({"-H", "a,b", "--env", "HORO_TIMEOUT=soon", "train"}),
              HasSubstr("oob_tcp_keepalive_time 189"));
}

TEST(MpirunCommand, RequestsNumberOfRanks) {
  EXPECT_THAT(error_of({"p"}), HasSubstr("give -np N, such as hororun -np 2 p"));
}

TEST(MpirunCommand, KeepsDomainsOfHosts) {
  constexpr const char* kOption = "--mca orte_keep_fqdn_hostnames 1";
  EXPECT_THAT(line({"-H", "a.example.org:2,b", "p"}), HasSubstr(kOption));
  EXPECT_THAT(line({"-H", "a:2,10.0.0.1", "p"}), Not(HasSubstr(kOption)));
  EXPECT_THAT(line({"-H", "a.x", "--mpi-args", "--mca orte_keep_fqdn_hostnames 0", "p"}),
              Not(HasSubstr(kOption)));
  Machine machine = user_machine();
  machine.host_name = "here.example.org";
  EXPECT_THAT(line({"-np", "2", "p"}, machine), HasSubstr(kOption));
}

TEST(MpirunCommand, QuotesProgramArguments) {
  EXPECT_THAT(line({"-np", "1", "sh", "-c", "echo \"$1\"; exit 3", "two words", "a\nb", ""}),
              testing::EndsWith(" sh -c 'echo \"$1\"; exit 3' 'two words' 'a\nb' ''"));
}

TEST(MpirunCommand, ProtectsColonFromMpirun) {
  EXPECT_THAT(line({"-np", "1", "p", "a", ":", "b c"}),
              testing::EndsWith(R"( sh -c 'exec p a : '\''b c'\''')"));
}

TEST(MpirunCommand, PassesHoroAndUserVariables) {
  Machine machine = user_machine();
  machine.environment = {"HORO_SPIN=20us", "HOME=/root", "HORO_TIMEOUT=1 min", "OMP_NUM_THREADS=3"};
  EXPECT_EQ(line({"-np", "2", "--env", "HORO_SPIN=1us", "--env", "DATA=/my data", "p"}, machine),
            "DATA='/my data' HORO_SPIN=1us HORO_TIMEOUT='1 min' OMPI_MCA_opal_signal='' "
            "OMPI_MCA_shmem=mmap "
            "OMP_NUM_THREADS=3 mpirun -np 2 "
            "--oversubscribe "
            "--bind-to none -x DATA -x HORO_SPIN -x HORO_TIMEOUT -x OMP_NUM_THREADS p");
}

TEST(MpirunCommand, DisablesCrashHandlerUnlessUserSetsIt) {
  Machine machine = user_machine();
  EXPECT_THAT(line({"-np", "2", "p"}, machine), testing::StartsWith("OMPI_MCA_opal_signal='' "));
  EXPECT_THAT(line({"-np", "2", "--mpi-args", "--mca opal_signal 6", "p"}, machine),
              Not(HasSubstr("OMPI_MCA_opal_signal")));
  EXPECT_THAT(line({"-np", "2", "--env", "OMPI_MCA_opal_signal=6", "p"}, machine),
              testing::StartsWith("OMPI_MCA_opal_signal=6 "));
  machine.environment.push_back("OMPI_MCA_opal_signal=6");
  EXPECT_THAT(line({"-np", "2", "p"}, machine), Not(HasSubstr("OMPI_MCA_opal_signal")));
}

TEST(MpirunCommand, SkipsTestOfPosixSharedMemoryUnlessUserChooses) {
  Machine machine = user_machine();
  EXPECT_THAT(line({"-np", "2", "p"}, machine), HasSubstr(" OMPI_MCA_shmem=mmap "));
  EXPECT_THAT(line({"-np", "2", "--mpi-args", "--mca shmem posix", "p"}, machine),
              Not(HasSubstr("OMPI_MCA_shmem")));
  machine.environment.push_back("OMPI_MCA_shmem=posix");
  EXPECT_THAT(line({"-np", "2", "p"}, machine), Not(HasSubstr("OMPI_MCA_shmem")));
}

TEST(MpirunCommand, KeepsParametersFromUserVariables) {
  const auto has = [](const std::string& option, const std::string& variable,
                      const std::vector<std::string>& words) {
    Machine machine = user_machine();
    machine.host_name = "here.example.org";
    machine.allows_cross_memory_copy = false;
    machine.has_remote_shell = false;
    EXPECT_THAT(line(words, machine), HasSubstr(option));
    machine.environment.push_back(variable);
    EXPECT_THAT(line(words, machine), Not(HasSubstr(option))) << variable;
    machine.environment.pop_back();
    std::vector<std::string> with_option = {"--env", variable};
    with_option.insert(with_option.end(), words.begin(), words.end());
    EXPECT_THAT(line(with_option, machine), Not(HasSubstr(option))) << variable;
  };
  const std::vector<std::string> here = {"-np", "9", "p"};
  const std::vector<std::string> hosts = {"-H", "a,b", "p"};
  has("--mca oob_tcp_keepalive_time", "OMPI_MCA_oob_tcp_keepalive_time=60", hosts);
  has("--mca oob_tcp_keepalive_probes", "OMPI_MCA_oob_tcp_keepalive_time=60", hosts);
  has("--mca orte_keep_fqdn_hostnames", "OMPI_MCA_orte_keep_fqdn_hostnames=0", hosts);
  has("--mca mpi_yield_when_idle", "OMPI_MCA_mpi_yield_when_idle=0", here);
  has("--mca btl_vader_single_copy", "OMPI_MCA_btl_vader_single_copy_mechanism=cma", here);
  has("--mca plm", "OMPI_MCA_plm=rsh", here);
  has("--bind-to none", "OMPI_MCA_hwloc_base_binding_policy=core", here);
  Machine machine = user_machine();
  machine.has_remote_shell = false;
  machine.environment.push_back("OMPI_MCA_plm_rsh_no_tree_spawn=1");
  EXPECT_THAT(line(here, machine), HasSubstr("--mca plm isolated")) << "another parameter is set";
  has("--oversubscribe", "OMPI_MCA_rmaps_base_no_oversubscribe=1", here);
}

TEST(MpirunCommand, YieldsWhenRanksOutnumberCores) {
  EXPECT_THAT(line({"-np", "9", "p"}), HasSubstr("--mca mpi_yield_when_idle 1"));
  EXPECT_THAT(line({"-np", "9", "p"}), HasSubstr("OMP_NUM_THREADS=1 "));
  EXPECT_THAT(line({"-H", "here:9", "p"}), HasSubstr("--mca mpi_yield_when_idle 1"));
  EXPECT_THAT(line({"-np", "8", "p"}), Not(HasSubstr("mpi_yield_when_idle")));
}

TEST(MpirunCommand, DisablesCrossMemoryCopyIfForbidden) {
  Machine machine = user_machine();
  machine.allows_cross_memory_copy = false;
  EXPECT_THAT(line({"-np", "2", "p"}, machine),
              HasSubstr("--mca btl_vader_single_copy_mechanism none"));
}

TEST(MpirunCommand, WorksWithoutRemoteShell) {
  Machine machine = user_machine();
  machine.has_remote_shell = false;
  EXPECT_THAT(line({"-np", "2", "p"}, machine), HasSubstr("--mca plm isolated"));
  EXPECT_THAT(line({"-H", "localhost:2,here:1", "p"}, machine), HasSubstr("--mca plm isolated"));
  EXPECT_THAT(line({"-H", "here:2,there:2", "p"}, machine), Not(HasSubstr("isolated")));
  machine.environment.push_back("SLURM_JOB_ID=7");
  EXPECT_THAT(line({"-np", "2", "p"}, machine), Not(HasSubstr("isolated")));
}

TEST(MpirunCommand, WritesOutputFiles) {
  EXPECT_THAT(line({"-np", "2", "--output-dir", "logs", "p"}),
              HasSubstr(" --output-filename logs:nojobid "));
}

TEST(MpirunCommand, UserArgumentsOverride) {
  EXPECT_EQ(
      line({"-np", "9", "--mpi-args", "--bind-to core --mca mpi_yield_when_idle 0", "p", "x"}),
      "OMPI_MCA_opal_signal='' OMPI_MCA_shmem=mmap OMP_NUM_THREADS=1 mpirun -np 9 --oversubscribe "
      "-x OMP_NUM_THREADS "
      "--bind-to core "
      "--mca mpi_yield_when_idle 0 p x");
}

TEST(MpirunCommand, RefusesMoreRanksThanSlots) {
  EXPECT_THAT(error_of({"-np", "7", "-H", "a:4,b:2", "p"}),
              HasSubstr("-np 7 is more than the 6 slots"));
  EXPECT_EQ(error_of({"-np", "7", "-H", "a:4,b:2", "--oversubscribe", "p"}), "no error");
  EXPECT_EQ(error_of({"-np", "6", "-H", "a:4,b:2", "p"}), "no error");
  EXPECT_EQ(error_of({"-np", "99", "--hostfile", "f", "p"}, user_machine(), "a\n"), "no error");
}

TEST(MpirunCommand, RejectsTooManyLocalRanks) {
  EXPECT_EQ(error_of({"-np", "2048", "p"}), "no error");
  EXPECT_THAT(error_of({"-np", "2049", "p"}),
              HasSubstr("-np 2049 is more than 256 ranks per core on this machine with 8 cores"));
}

TEST(MpirunCommand, NeedsRanksIfHostsHaveNoSlots) {
  EXPECT_THAT(error_of({"--hostfile", "f", "p"}, user_machine(), "a\n"), HasSubstr("give -np N"));
}

}  // namespace
}  // namespace horo
