// A job that uses horo in one of the scenarios of living_test.py: living_job SCENARIO
// Prints the results, which the script checks.
#include <mpi.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "horo/horo.h"
#include "horo/mpi.h"
#include "horo/mpi_bootstrap.h"

namespace {

using horo::Context;
using horo::TensorView;

constexpr int kSpawned = 2;  // processes

std::vector<float> data(100000, 1.0f);  // outlives the operations that main() leaves in flight

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void use(Context& ctx) {
  std::vector<float> x(1000, static_cast<float>(ctx.rank()));
  ctx.allreduce(TensorView(x), {.name = "x", .op = horo::ReduceOp::kMax});
  if (x[999] != static_cast<float>(ctx.size() - 1)) say("WRONG SUM");
}

// Prints "refused: TEXT" or "allowed".
void attempt(const std::function<void()>& call) {
  try {
    call();
    say("allowed");
  } catch (const horo::Error& error) {
    say(std::string("refused: ") + error.what());
  }
}

// Reads the rank from the launcher's variables, since MPI is not initialised yet.
bool is_last_rank() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return rank != nullptr && size != nullptr && std::atoi(rank) + 1 == std::atoi(size);
}

// Uses named operations, a GradientSync and a process set.
void use_all(Context& ctx) {
  use(ctx);
  horo::ProcessSet set = ctx.new_process_set({0});
  std::vector<float> gradient(30000, static_cast<float>(ctx.rank()));
  const std::vector<horo::NamedTensor> gradients = {{"g", TensorView(gradient)}};
  horo::GradientSync sync(ctx, gradients);
  sync.exchange();
  if (gradient[29999] != static_cast<float>(ctx.size() - 1) / 2) say("WRONG AVERAGE");
}

// MPI is called by this thread only, while horo's threads exchange.
void call_mpi(int rank, int size) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum != size * (size - 1) / 2) say("WRONG SUM OF MPI");
}

void use_beside_mpi(Context& ctx) {
  use_all(ctx);
  std::vector<float> x(1000, 1.0f);
  const horo::Handle handle =
      ctx.allreduce_async(TensorView(x), {.name = "beside", .op = horo::ReduceOp::kSum});
  call_mpi(ctx.rank(), ctx.size());
  handle.wait();
  if (x[999] != static_cast<float>(ctx.size())) say("WRONG SUM");
}

void init_at_level(int level) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  attempt([] {
    Context ctx = horo::init();
    use_beside_mpi(ctx);
  });
  MPI_Finalize();
}

void init_without_level() {
  MPI_Init(nullptr, nullptr);
  attempt([] {
    Context ctx = horo::init();
    use_beside_mpi(ctx);
  });
  MPI_Finalize();
}

// With a low thread level, horo uses MPI in init() only.
void finalize_at_low_level() {
  MPI_Init(nullptr, nullptr);
  Context ctx = horo::init();
  use_all(ctx);
  MPI_Finalize();
  attempt([&] { use_all(ctx); });
}

void init_on_other_thread(int level) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  std::thread([] {
    attempt([] {
      Context ctx = horo::init();
      use_all(ctx);
    });
  }).join();
  MPI_Finalize();
}

// One rank has initialised MPI with a lower level than the others.
void mixed_levels() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, is_last_rank() ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE,
                  &provided);
  attempt([] {
    Context ctx = horo::init();
    use_beside_mpi(ctx);
  });
  MPI_Finalize();
}

// horo calls no MPI at all.
void own_bootstrap() {
  MPI_Init(nullptr, nullptr);
  const horo::Bootstrap bootstrap = horo::bootstrap_over(MPI_COMM_WORLD);
  Context ctx = horo::init(bootstrap);
  use_beside_mpi(ctx);
  MPI_Finalize();
  attempt([&] { use_all(ctx); });
  attempt(
      [] { Context wrong = horo::init(horo::Bootstrap{.rank = 2, .size = 2, .allgather = {}}); });
}

// Jobs of the spawned processes with their parents, and of each group alone.
void use_with_spawned(MPI_Comm other_group, bool is_child) {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Intercomm_merge(other_group, is_child, &all);
  int size = 0, own_size = 0;
  MPI_Comm_size(all, &size);
  MPI_Comm_size(MPI_COMM_WORLD, &own_size);
  attempt([&] {
    Context ctx = horo::init(all);
    if (ctx.size() != size || size <= own_size) say("WRONG SIZE");
    use_all(ctx);
  });
  attempt([] {
    Context ctx = horo::init();
    use_all(ctx);
  });
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other_group);
  MPI_Finalize();
}

void spawn() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  char scenario[] = "spawned";
  char* arguments[] = {scenario, nullptr};
  MPI_Comm children = MPI_COMM_NULL;
  MPI_Comm_spawn(program.c_str(), arguments, kSpawned, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                 MPI_ERRCODES_IGNORE);
  use_with_spawned(children, false);
}

void spawned() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm parents = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parents);
  use_with_spawned(parents, true);
}

// Calls MPI_Finalize while the context still exists, as happens when main()'s objects outlive that
// call.
void finalize_first() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  Context ctx = horo::init();
  horo::ProcessSet set = ctx.new_process_set({0});
  const std::vector<horo::NamedTensor> gradients = {{"g", TensorView(data)}};
  horo::GradientSync sync(ctx, gradients);
  sync.exchange();
  use(ctx);
  MPI_Finalize();
  attempt([&] { use(ctx); });
  attempt([&] { sync.exchange(); });
  attempt([&] { (void)ctx.new_process_set({0}); });
  attempt([&] { ctx.shutdown(); });
}

void finalize_of_horos_mpi() {
  Context ctx = horo::init();
  use(ctx);
  MPI_Finalize();
  attempt([&] { use(ctx); });
}

void finalize_after() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  Context ctx = horo::init();
  use(ctx);
  ctx.shutdown();
  MPI_Finalize();
  attempt([&] { use(ctx); });
}

void second_init() {
  {
    Context ctx = horo::init();
    use(ctx);
  }
  attempt([] { Context ctx = horo::init(); });
}

void two_contexts_of_horos_mpi() {
  std::optional<Context> first = horo::init();
  Context second = horo::init();
  first.reset();
  use(second);
  say("the second goes on");
}

void init_after_failure() {
  setenv("HORO_SPIN", "5 parsecs", 1);
  attempt([] { Context ctx = horo::init(); });
  unsetenv("HORO_SPIN");
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr)
    setenv("HORO_SERVERS", std::strcmp(std::getenv("OMPI_COMM_WORLD_RANK"), "0") == 0 ? "1" : "2",
           1);
  attempt([] { Context ctx = horo::init(); });
  unsetenv("HORO_SERVERS");
  Context ctx = horo::init();
  use(ctx);
  say("the third goes on");
}

// The child ends by exit(), or by a return from main() with destructors and atexit() handlers.
void fork_and_exit(bool returns) {
  Context ctx = horo::init();
  use(ctx);
  const pid_t child = fork();
  if (child == 0) {
    if (returns) return;
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  say("child ended with " + std::to_string(status));
  use(ctx);
  ctx.barrier();
}

// The last rank calls init() late.
void late_init(bool has_own_mpi, std::chrono::seconds late_by) {
  int provided = MPI_THREAD_SINGLE;
  if (has_own_mpi) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (is_last_rank()) std::this_thread::sleep_for(late_by);
  try {
    Context ctx = horo::init();
    use(ctx);
    say("joined");
  } catch (const horo::CommunicationError& error) {
    say(std::string("refused: ") + error.what());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  if (has_own_mpi) MPI_Finalize();
}

// The last rank exits before init() or never calls it. horo initialises MPI.
void never_join(bool loops) {
  if (is_last_rank() && !loops) std::exit(0);
  // mpirun ends a job in which a rank exits after another one has called MPI_Init.
  if (!loops) std::this_thread::sleep_for(std::chrono::seconds(2));
  late_init(false, std::chrono::hours(1));
}

void just_init() {
  Context ctx = horo::init();
  say("rank " + std::to_string(ctx.rank()) + " of " + std::to_string(ctx.size()));
  use(ctx);
}

// libgomp counts the processors before horo binds the rank.
void openmp() {
  Context ctx = horo::init();
  int threads = 0;
#pragma omp parallel
  {
#pragma omp single
    threads = omp_get_num_threads();
  }
  say("OpenMP has " + std::to_string(threads) + " threads on " +
      std::to_string(omp_get_num_procs()) + " processors");
}

const std::map<std::string, std::function<void()>> scenarios = {
    {"single", [] { init_at_level(MPI_THREAD_SINGLE); }},
    {"funneled", [] { init_at_level(MPI_THREAD_FUNNELED); }},
    {"serialized", [] { init_at_level(MPI_THREAD_SERIALIZED); }},
    {"plain_init", init_without_level},
    {"funneled_other_thread", [] { init_on_other_thread(MPI_THREAD_FUNNELED); }},
    {"serialized_other_thread", [] { init_on_other_thread(MPI_THREAD_SERIALIZED); }},
    {"finalize_at_low_level", finalize_at_low_level},
    {"mixed_levels", mixed_levels},
    {"spawn", spawn},
    {"spawned", spawned},
    {"own_bootstrap", own_bootstrap},
    {"multiple", [] { init_at_level(MPI_THREAD_MULTIPLE); }},
    {"finalize_first", finalize_first},
    {"finalize_of_horos_mpi", finalize_of_horos_mpi},
    {"finalize_after", finalize_after},
    {"second_init", second_init},
    {"two_contexts", two_contexts_of_horos_mpi},
    {"init_after_failure", init_after_failure},
    {"fork_exit", [] { fork_and_exit(false); }},
    {"fork_return", [] { fork_and_exit(true); }},
    {"late_init", [] { late_init(false, std::chrono::seconds(8)); }},
    {"late_init_own_mpi", [] { late_init(true, std::chrono::seconds(8)); }},
    {"never_init", [] { late_init(true, std::chrono::hours(1)); }},
    {"exit_before_init", [] { never_join(false); }},
    {"loop_before_init", [] { never_join(true); }},
    {"init", just_init},
    {"openmp", openmp},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || scenarios.count(argv[1]) == 0) return 2;
  try {
    scenarios.at(argv[1])();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "living_job: %s\n", error.what());
    return 1;
  }
}
