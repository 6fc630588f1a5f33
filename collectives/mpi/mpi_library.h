#pragma once

#include <string>

namespace horo::collectives {

/// The MPI library of this process, its version and where it was loaded from: "Open MPI v4.1.4
/// (/usr/lib/libmpi.so.40)". May be called before MPI is initialised.
std::string mpi_library_text();

}  // namespace horo::collectives
