#include "collectives/mpi/mpi_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace horo::collectives {
namespace {

TEST(MpiLibrary, HasFamily) {
  EXPECT_EQ(family_of_mpi("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"),
            MpiFamily::kOpenMpi);
  for (const char* version :
       {"MPICH Version:\t4.0.2\nMPICH Release date:", "Intel(R) MPI Library 2021.9 for Linux* OS",
        "MVAPICH2 Version      :\t2.3.7", "MVAPICH Version      :\t3.0",
        "CRAY MPICH version 8.1.28.29 (ANL base 3.4a2)"})
    EXPECT_EQ(family_of_mpi(version), MpiFamily::kMpich) << version;
  EXPECT_EQ(family_of_mpi("FUJITSU MPI Library 4.0.1"), MpiFamily::kOther);
  EXPECT_EQ(family_of_mpi(""), MpiFamily::kOther);
}

TEST(MpiLibrary, HasMajorVersion) {
  EXPECT_EQ(open_mpi_major_version("Open MPI v4.1.4, package: Debian OpenMPI"), 4);
  EXPECT_EQ(open_mpi_major_version("Open MPI v5.0.0rc12"), 5);
  EXPECT_EQ(open_mpi_major_version("MPICH Version: 4.0.2"), -1);
  EXPECT_EQ(open_mpi_major_version("Open MPI v"), -1);
}

TEST(MpiLibrary, MatchesBuild) {
  EXPECT_NO_THROW(require_mpi_of_build());
  EXPECT_EQ(warning_of_mpi_version(), "");
  EXPECT_THAT(mpi_library_text(), testing::HasSubstr("libmpi"));
}

}  // namespace
}  // namespace horo::collectives
