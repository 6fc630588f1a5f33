#include "collectives/mpi/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

// The MPI that horo was compiled for.
struct Build {
  MpiFamily family;
  std::string text;
  int open_mpi_major = -1;
};

Build build() {
#if defined(OMPI_MAJOR_VERSION)
  return {MpiFamily::kOpenMpi,
          fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                      OMPI_RELEASE_VERSION),
          OMPI_MAJOR_VERSION};
#elif defined(I_MPI_VERSION)
  return {MpiFamily::kMpich, "Intel MPI " I_MPI_VERSION};
#elif defined(MPICH_VERSION)
  return {MpiFamily::kMpich, "MPICH " MPICH_VERSION};
#else
  return {MpiFamily::kOther, ""};
#endif
}

// Larger than MPI_MAX_LIBRARY_VERSION_STRING of Open MPI (256) and of MPICH (8192). The constant of
// the build is not safe, because this process may have loaded another MPI library, which may write
// more bytes.
constexpr std::size_t kMostVersionBytes = 16 * 1024;

std::string library_version() {
  std::string text(kMostVersionBytes, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(std::min(static_cast<std::size_t>(std::max(length, 0)), text.size()));
  std::ranges::replace(text, '\t', ' ');
  return text;
}

}  // namespace

std::string mpi_library_text() {
  const std::string text = library_version();
  // The text begins with the name and the version. After a comma or a line feed, details follow.
  const std::string_view version = std::string_view(text).substr(0, text.find_first_of(",\n"));
  // &MPI_Init_thread may be the address of a stub in the program. dlsym() returns the address of
  // the function in the library.
  Dl_info info{};
  void* const symbol = dlsym(RTLD_DEFAULT, "MPI_Init_thread");
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr)
    return std::string(version);
  return fmt::format("{} ({})", version, info.dli_fname);
}

MpiFamily family_of_mpi(std::string_view library_version) {
  constexpr std::array<std::string_view, 4> kLikeMpich = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                                          "CRAY MPICH"};
  if (library_version.starts_with("Open MPI")) return MpiFamily::kOpenMpi;
  const bool is_like_mpich = std::ranges::any_of(
      kLikeMpich, [&](std::string_view name) { return library_version.starts_with(name); });
  return is_like_mpich ? MpiFamily::kMpich : MpiFamily::kOther;
}

void require_mpi_of_build() {
  const MpiFamily family = family_of_mpi(library_version());
  const Build build = collectives::build();
  if (family == build.family || family == MpiFamily::kOther || build.family == MpiFamily::kOther)
    return;
  throw CommunicationError(fmt::format(
      "horo was built for {}, but the MPI library of this process is {}: link the program with the "
      "MPI that horo was built for, or build horo with the other one (cmake "
      "-DMPI_CXX_COMPILER=mpicxx)",
      build.text, mpi_library_text()));
}

int open_mpi_major_version(std::string_view library_version) {
  constexpr std::string_view kName = "Open MPI v";
  if (!library_version.starts_with(kName)) return -1;
  library_version.remove_prefix(kName.size());
  int major = -1;
  std::from_chars(library_version.data(), library_version.data() + library_version.size(), major);
  return major;
}

std::string warning_of_mpi_version() {
  const Build build = collectives::build();
  const int major = open_mpi_major_version(library_version());
  if (major == -1 || build.open_mpi_major == -1 || major == build.open_mpi_major) return {};
  return fmt::format(
      "horo was built for {}, and the MPI library of this process is {}: if MPI fails, build horo "
      "with the version that the job uses",
      build.text, mpi_library_text());
}

}  // namespace horo::collectives
