#include "collectives/mpi/mpi_session.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/mpi/launch_environment.h"
#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_library.h"
#include "horo/base/error.h"
#include "horo/base/system/home_process.h"

namespace horo::collectives {

namespace {

using Clock = std::chrono::steady_clock;

// The delay of exit_late(). Under mpirun, it passes in full only if no rank exits with an error
// earlier, for example because all ranks delay their exit after a stall.
constexpr std::chrono::seconds kTimeToReportCause{3};

// By default, Open MPI uses a rendezvous for TCP messages of more than 64 KiB. A rendezvous is a
// round trip that needs CPU time on both ranks while the link is idle. A ring posts its receives
// ahead, so its segments do not need a rendezvous. MPI_Init_thread reads the parameters of Open MPI
// from the environment.
void set_eager_limits(std::size_t message_bytes) {
  constexpr std::size_t kHeaders = 4096;
  const std::string limit = std::to_string(message_bytes + kHeaders);
  const char* const names[] = {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit",
                               "OMPI_MCA_btl_tcp_max_send_size"};
  for (const char* name : names)
    if (getenv(name) != nullptr) return;
  for (const char* name : names) setenv(name, limit.c_str(), 0);
}

// The crash handler of Open MPI prints a stack for each rank that crashes, and may deadlock if the
// heap is corrupted. An empty list of signals disables the handler. A list that the user has set
// stays in effect.
void disable_open_mpi_crash_handler() { setenv("OMPI_MCA_opal_signal", "", 0); }

// If a process is killed while Open MPI tests its shared-memory component "posix", the file
// /dev/shm/open_mpi.0000 remains. Open MPI prefers the component "mmap" anyway. The explicit
// selection of "mmap" avoids the test. A selection by the user stays in effect.
void skip_test_of_posix_shared_memory() { setenv("OMPI_MCA_shmem", "mmap", 0); }

// The state that all sessions of this process share.
struct Sessions {
  // Guards the other members. During exit(), however, the code in this file reads `home` and sets
  // `exit_code` without the mutex. The mutex is recursive, because at_exit_ of a session may call
  // finalize() of the same session.
  std::recursive_mutex mutex;
  int open = 0;
  bool is_mpi_ours = false;
  std::optional<HomeProcess> home;
  std::vector<MpiSession*> watching;
  Clock::time_point exit_after{};
  int exit_code = 0;  // set by exit()
};

Sessions& sessions() {
  static auto* all = new Sessions;  // never destroyed: on_exit() runs after static destructors
  return *all;
}

void initialise(std::size_t message_bytes) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0)
    throw CommunicationError(
        "MPI has been finalised in this process and cannot be initialised again: keep one Context "
        "for as long as the program needs horo, or call MPI_Init_thread before the first "
        "Context and MPI_Finalize after the last one");
  set_eager_limits(message_bytes);
  disable_open_mpi_crash_handler();
  skip_test_of_posix_shared_memory();
  int provided = MPI_THREAD_SINGLE;
  HORO_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  sessions().is_mpi_ours = true;
}

void check_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  HORO_MPI(MPI_Query_thread(&provided));
  if (provided >= MPI_THREAD_MULTIPLE) return;
  if (sessions().is_mpi_ours)
    throw CommunicationError(
        "this MPI library does not offer MPI_THREAD_MULTIPLE, which horo's threads need");
  throw InvalidArgument(
      "the program initialised MPI without MPI_THREAD_MULTIPLE, which horo's threads need: call "
      "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or let horo::init() initialise MPI, or "
      "start a program that calls MPI_Init with OMPI_MPI_THREAD_LEVEL=3 in its environment (Open "
      "MPI)");
}

// Runs after the destructors of static objects, because such a destructor may still shut down horo,
// for example that of a static Context.
[[gnu::destructor]] void end_of_process() { MpiSession::on_exit(); }

// Throws if the MPI library reports a single process although the launcher started several.
void check_launch(const std::vector<std::string>& environment) {
  int size = 0;
  HORO_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  const LaunchEnvironment launch = read_launch_environment(environment);
  if (launch.is_mpi_mismatch(size))
    throw CommunicationError(
        launch.describe_mpi_mismatch(mpi_library_text(), launcher_of_this_process()));
}

}  // namespace

MpiSession::MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment) {
  Sessions& all = sessions();
  const std::scoped_lock lock(all.mutex);
  if (!all.home) {
    all.home.emplace();
    // This handler runs in exit() and stores the exit code, because end_of_process() does not
    // receive it.
    ::on_exit([](int code, void*) { sessions().exit_code = code; }, nullptr);
  }
  all.home->require_home();
  require_mpi_of_build();
  if (!mpi_is_running()) initialise(message_bytes);
  check_thread_level();
  try {
    check_launch(environment);
  } catch (const CommunicationError&) {
    // The world of MPI has only this process, so MPI_Finalize waits for no other process.
    if (all.is_mpi_ours && all.open == 0) MPI_Finalize();
    throw;
  }
  ++all.open;
}

MpiSession::~MpiSession() {
  unwatch();
  leave();
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else. MPI calls this
// function when the attribute of watch() is deleted. If unwatch() deletes the attribute,
// before_finalize_ is null.
int MpiSession::on_delete(MPI_Comm, int, void* session, void*) {
  auto* self = static_cast<MpiSession*>(session);
  if (const auto action = std::exchange(self->before_finalize_, nullptr)) action();
  return MPI_SUCCESS;
}

void MpiSession::on_exit() {
  Sessions& all = sessions();
  if (!all.home || all.home->is_elsewhere()) return;
  const std::scoped_lock lock(all.mutex);
  while (!all.watching.empty()) {
    MpiSession* const session = all.watching.back();
    all.watching.pop_back();
    session->at_exit_(all.exit_code);
  }
  std::this_thread::sleep_until(all.exit_after);
}

void MpiSession::exit_late() {
  const std::scoped_lock lock(sessions().mutex);
  sessions().exit_after = Clock::now() + kTimeToReportCause;
}

void MpiSession::watch(std::function<void()> before_finalize, std::function<void(int)> at_exit) {
  before_finalize_ = std::move(before_finalize);
  at_exit_ = std::move(at_exit);
  HORO_MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &MpiSession::on_delete, &key_, nullptr));
  HORO_MPI(MPI_Comm_set_attr(MPI_COMM_SELF, key_, this));
  Sessions& all = sessions();
  const std::scoped_lock lock(all.mutex);
  all.watching.push_back(this);
}

// on_exit() holds the mutex while it calls at_exit_. When this function has the mutex, at_exit_ is
// therefore not running, unless at_exit_ itself has called this function.
void MpiSession::unwatch() {
  {
    const std::scoped_lock lock(sessions().mutex);
    std::erase(sessions().watching, this);
  }
  before_finalize_ = nullptr;
  if (key_ == MPI_KEYVAL_INVALID || !mpi_is_running()) return;
  MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
  MPI_Comm_free_keyval(&key_);
}

bool MpiSession::is_last() const {
  const std::scoped_lock lock(sessions().mutex);
  return !is_over_ && sessions().open == 1 && sessions().is_mpi_ours && mpi_is_running();
}

bool MpiSession::leave() {
  const std::scoped_lock lock(sessions().mutex);
  if (std::exchange(is_over_, true)) return false;
  return --sessions().open == 0 && sessions().is_mpi_ours && mpi_is_running();
}

void MpiSession::finalize() {
  unwatch();
  if (leave()) MPI_Finalize();
}

}  // namespace horo::collectives
