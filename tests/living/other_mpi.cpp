// Replaces MPI functions: the library version is TEST_MPI_VERSION, by default that of another MPI
// family, and each use of a communicator handle prints a message.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" {

int MPI_Get_library_version(char* version, int* length) {
  const char* const chosen = std::getenv("TEST_MPI_VERSION");
  const std::string_view text = chosen == nullptr ? "MPICH Version: 4.0.2" : chosen;
  *std::copy(text.begin(), text.end(), version) = '\0';
  *length = static_cast<int>(text.size());
  return MPI_SUCCESS;
}

int MPI_Comm_group(MPI_Comm communicator, MPI_Group* group) {
  std::fprintf(stderr, "Invalid communicator\n");
  return PMPI_Comm_group(communicator, group);
}

int MPI_Comm_size(MPI_Comm communicator, int* size) {
  std::fprintf(stderr, "Invalid communicator\n");
  return PMPI_Comm_size(communicator, size);
}

}  // extern "C"
