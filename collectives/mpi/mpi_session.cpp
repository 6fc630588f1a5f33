#include "collectives/mpi/mpi_session.h"

#include <mpi.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/mpi_library.h"
#include "horo/base/error.h"
#include "horo/base/system/launch_environment.h"

namespace horo::collectives {

namespace {

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
  std::mutex mutex;  // guards the other members
  int open = 0;
  bool is_mpi_ours = false;
};

Sessions& sessions() {
  static auto* all = new Sessions;  // never destroyed: sessions may close at the end of the process
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

int thread_level() {
  int provided = MPI_THREAD_SINGLE;
  HORO_MPI(MPI_Query_thread(&provided));
  return provided;
}

// Whether this thread may call MPI while no other thread of the process does.
bool may_call_mpi() {
  int is_main = 0;
  HORO_MPI(MPI_Is_thread_main(&is_main));
  return thread_level() >= MPI_THREAD_SERIALIZED || is_main != 0;
}

void check_thread() {
  if (!may_call_mpi())
    throw InvalidArgument(
        "the program initialised MPI with MPI_THREAD_FUNNELED or a lower thread level, and "
        "horo::init() was called by a thread that may not call MPI: call it on the thread that "
        "initialised MPI, or initialise MPI with MPI_THREAD_MULTIPLE");
}

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

MpiSession::MpiSession(std::size_t message_bytes, const std::vector<std::string>& environment)
    : key_(MPI_KEYVAL_INVALID) {
  Sessions& all = sessions();
  const std::scoped_lock lock(all.mutex);
  require_mpi_of_build();
  if (!mpi_is_running()) initialise(message_bytes);
  check_thread();
  allows_threads_ = thread_level() >= MPI_THREAD_MULTIPLE;
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

namespace {

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else. MPI calls this
// function when the attribute of watch_finalize() is deleted. If unwatch() deletes the attribute,
// the function of the session is empty.
int on_delete(MPI_Comm, int, void* before_finalize, void*) {
  auto& function = *static_cast<std::function<void()>*>(before_finalize);
  if (const auto action = std::exchange(function, nullptr)) action();
  return MPI_SUCCESS;
}

}  // namespace

void MpiSession::watch_finalize(std::function<void()> before_finalize) {
  before_finalize_ = std::make_unique<std::function<void()>>(std::move(before_finalize));
  HORO_MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &on_delete, &key_, nullptr));
  HORO_MPI(MPI_Comm_set_attr(MPI_COMM_SELF, key_, before_finalize_.get()));
}

// If this thread may not call MPI, the attribute remains until MPI_Finalize, and so does the memory
// that it refers to.
void MpiSession::unwatch() {
  if (key_ == MPI_KEYVAL_INVALID || !mpi_is_running()) return;
  *before_finalize_ = nullptr;
  if (may_call_mpi()) {
    MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
    MPI_Comm_free_keyval(&key_);
  } else {
    (void)before_finalize_.release();
  }
  key_ = MPI_KEYVAL_INVALID;
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
