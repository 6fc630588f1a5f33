#pragma once

#include <string>
#include <string_view>

namespace horo::collectives {

/// Returns the name, version and path of the MPI library of this process: "Open MPI v4.1.4
/// (/usr/lib/libmpi.so.40)". May be called before MPI is initialised.
std::string mpi_library_text();

/// Libraries of one family have the same binary interface, so the values of their handles and
/// constants are interchangeable.
enum class MpiFamily { kOther, kOpenMpi, kMpich };

/// Returns the family for a text from MPI_Get_library_version. Intel MPI, MVAPICH and Cray MPICH
/// belong to the family of MPICH.
MpiFamily family_of_mpi(std::string_view library_version);

/// Throws CommunicationError if the MPI library of this process is of another family than the one
/// that horo was built for. Call it before the first use of an MPI handle, which a library of
/// another family would misinterpret. May be called before MPI is initialised.
void require_mpi_of_build();

/// Returns the major version in a text from MPI_Get_library_version of Open MPI; -1 for another
/// library.
int open_mpi_major_version(std::string_view library_version);

/// Returns a warning if horo was built for another major version of Open MPI than that of the
/// library of this process; empty otherwise. Such a library usually works, because the versions
/// share a binary interface.
std::string warning_of_mpi_version();

}  // namespace horo::collectives
