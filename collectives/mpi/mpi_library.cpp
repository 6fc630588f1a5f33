#include "collectives/mpi/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <string_view>

namespace horo::collectives {

std::string mpi_library_text() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // Libraries go on with their build; the first item names the version.
  std::string_view version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  // The address of a function may be the program's own stub for it; the symbol is the library's.
  Dl_info info{};
  void* const symbol = dlsym(RTLD_DEFAULT, "MPI_Init_thread");
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr)
    return std::string(version);
  return fmt::format("{} ({})", version, info.dli_fname);
}

}  // namespace horo::collectives
