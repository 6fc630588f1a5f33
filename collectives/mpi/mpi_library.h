#pragma once

#include <string>
#include <string_view>

namespace horo::collectives {

/// The MPI library of this process, its version and where it was loaded from: "Open MPI v4.1.4
/// (/usr/lib/libmpi.so.40)". May be called before MPI is initialised.
std::string mpi_library_text();

/// Libraries of one family have the same binary interface: their handles and constants mean the
/// same.
enum class MpiFamily { kOther, kOpenMpi, kMpich };

/// By what MPI_Get_library_version says. Intel MPI, MVAPICH and Cray MPICH are of MPICH's family.
MpiFamily family_of_mpi(std::string_view library_version);

/// Throws CommunicationError if the MPI library of this process is of another family than the one
/// that horo was built for. May be called before MPI is initialised, and must be called before any
/// handle is used, which the library could not read.
void require_mpi_of_build();

}  // namespace horo::collectives
