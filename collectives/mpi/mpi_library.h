#pragma once

#include <string>
#include <string_view>

namespace horo::collectives {

/// Returns the name, version and path of the MPI library of this process, for example "Open MPI
/// v4.1.4 (/usr/lib/libmpi.so.40)". Omits the path if it is unknown. May be called before MPI is
/// initialised.
std::string mpi_library_text();

/// The family of an MPI library. Libraries of one family, except kOther, represent MPI handles in
/// the same way.
enum class MpiFamily { kOther, kOpenMpi, kMpich };

/// Returns the family for a text from MPI_Get_library_version. Intel MPI, MVAPICH and Cray MPICH
/// belong to the family of MPICH.
MpiFamily family_of_mpi(std::string_view library_version);

/// Throws CommunicationError if the MPI library of this process is of another family than the
/// library that horo was built for. Does not throw if either family is kOther. Call this function
/// before the first use of an MPI handle, because a library of another family misinterprets the
/// handles. May be called before MPI is initialised.
void require_mpi_of_build();

/// Returns the major version in a text from MPI_Get_library_version of Open MPI, or -1 if the text
/// is from another library.
int open_mpi_major_version(std::string_view library_version);

/// Returns a warning if horo was built for one major version of Open MPI and the library of this
/// process has another. Otherwise returns an empty text. Such a library usually works, because
/// major versions share most of their binary interface.
std::string warning_of_mpi_version();

}  // namespace horo::collectives
