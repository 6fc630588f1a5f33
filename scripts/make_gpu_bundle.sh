#!/usr/bin/env bash
# Packs the libraries that horo needs into one archive, for a GPU machine without MPI, network and package manager. The
# archive contains Open MPI, Boost.Program_options, fmt, spdlog, nlohmann-json, zlib, oneDNN, GoogleTest and Google Benchmark
# from the packages of Debian 12. It can be unpacked anywhere; scripts/gpu_check.sh --deps uses it.
#
# usage: scripts/make_gpu_bundle.sh [--out FILE.tar.gz]     (default build/gpu_bundle/horo-deps.tar.gz)
#
# Runs on Debian 12 on x86-64. Needs g++ and the package lists (apt-get update). Installs nothing and needs no root.
# Exit code: 0; 1 if the archive could not be made; 2 for wrong usage or another system.
set -euo pipefail
cd "$(dirname "$0")/.."

refuse() {
  echo "make_gpu_bundle.sh: $1" >&2
  exit 2
}
fail() {
  echo "make_gpu_bundle.sh: $1" >&2
  exit 1
}

archive=build/gpu_bundle/horo-deps.tar.gz
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --out)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      archive=$2
      shift 2 ;;
    *) refuse "unknown option '$1'; make_gpu_bundle.sh --help lists them" ;;
  esac
done
[[ $archive == *.tar.gz ]] || refuse "--out $archive: the name must end in .tar.gz"
# shellcheck source=/dev/null
system=$(. /etc/os-release && echo "$ID ${VERSION_ID:-}") || system=unknown
[ "$system $(uname -m)" = 'debian 12 x86_64' ] || refuse "this system is $system on $(uname -m); Debian 12 on x86-64 is needed"
for program in apt-get dpkg-deb readelf strip g++; do
  command -v "$program" >/dev/null || refuse "$program is not installed; install g++"
done

# Only what the components below link to. Network fabrics are left out together with Open MPI's components for them.
packages=(
  openmpi-bin openmpi-common libopenmpi3 libopenmpi-dev
  libpmix2 libmunge2 libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7 libudev1
  libboost-program-options1.74.0 libboost-program-options1.74-dev libboost1.74-dev
  libfmt9 libfmt-dev libspdlog1.10 libspdlog-dev nlohmann-json3-dev zlib1g zlib1g-dev
  libdnnl2 libdnnl-dev ocl-icd-libopencl1
  libgtest-dev libgmock-dev libbenchmark1debian libbenchmark-dev
)
# The components of Open MPI that start and connect the ranks of one machine.
components=(
  allocator_{basic,bucket} bml_r2 btl_{self,tcp,vader} coll_{adapt,basic,han,inter,libnbc,self,sm,sync,tuned} compress_gzip
  errmgr_default_{app,hnp,orted,tool} ess_{env,hnp,pmi,singleton,tool} filem_raw grpcomm_direct iof_{hnp,orted,tool}
  mpool_hugepage odls_{default,pspawn} oob_tcp op_avx osc_{rdma,sm} patcher_overwrite plm_{isolated,rsh}
  pmix_{ext3x,isolated} pml_ob1 pstat_linux rcache_grdma reachable_weighted regx_{fwd,naive,reverse}
  rmaps_{ppr,rank_file,round_robin,seq} rml_oob routed_{binomial,direct,radix} rtc_hwloc schizo_{ompi,orte}
  shmem_{mmap,posix,sysv} state_{app,hnp,novm,orted,tool} topo_{basic,treematch}
)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/packages" "$work/files"
echo "downloading ${#packages[@]} packages"
(cd "$work/packages" && apt-get -o APT::Sandbox::User=root -qq download "${packages[@]}") ||
  fail "apt-get cannot download the packages; run apt-get update"
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/files"; done
# Debian 12 merges /lib into /usr/lib, but zlib's package still has files in /lib.
if [ -d "$work/files/lib" ]; then
  cp -a "$work/files/lib/." "$work/files/usr/lib/"
  rm -r "$work/files/lib"
fi

bundle=$work/horo-deps
libraries=usr/lib/x86_64-linux-gnu
from=$work/files to=$bundle
mkdir -p "$to"/{usr/bin,usr/include,usr/share/openmpi,etc/openmpi,doc} \
  "$to/$libraries"/{openmpi/lib/openmpi3,openmpi/include/openmpi,cmake,pkgconfig}

# Open MPI and PMIx. The names without a suffix are alternatives in Debian, so no package contains them.
cp -a "$from"/usr/bin/{orterun,orted,opal_wrapper,ompi_info} "$to/usr/bin/"
for name in mpirun mpiexec; do ln -s orterun "$to/usr/bin/$name"; done
for name in mpicc mpicxx mpic++; do
  ln -s opal_wrapper "$to/usr/bin/$name"
  # Programs that the wrapper links find the libraries of the bundle.
  # shellcheck disable=SC2016 # ${libdir} is a variable of Open MPI
  sed 's#^linker_flags=.*#linker_flags=-Wl,-rpath,${libdir}/../.. -Wl,-rpath-link,${libdir}/../..#' \
    "$from/usr/share/openmpi/$name-wrapper-data.txt" >"$to/usr/share/openmpi/$name-wrapper-data.txt"
done
for component in "${components[@]}"; do
  cp -a "$from/$libraries/openmpi/lib/openmpi3/mca_$component.so" "$to/$libraries/openmpi/lib/openmpi3/"
done
for library in libmpi libmpi_cxx libopen-rte libopen-pal libmca_common_sm libpmix libmunge libhwloc libevent_core-2.1 libevent_pthreads-2.1; do
  cp -a "$from/$libraries/$library".so.* "$to/$libraries/"
done
for library in libmpi libmpi_cxx; do ln -s "../../$library.so.40" "$to/$libraries/openmpi/lib/$library.so"; done
cp -aL "$from/$libraries/openmpi/include"/{mpi.h,mpi-ext.h,mpi_portable_platform.h} "$to/$libraries/openmpi/include/"
cp -aL "$from/$libraries/openmpi/include/openmpi/mpiext" "$to/$libraries/openmpi/include/openmpi/"
cp -aL "$from"/usr/share/openmpi/help-*.txt "$to/usr/share/openmpi/"
cp -aL "$from/etc/openmpi/openmpi-mca-params.conf" "$to/etc/openmpi/"
: >"$to/etc/openmpi/openmpi-default-hostfile"
cp -a "$from/$libraries/pmix2" "$to/$libraries/"
rm -rf "$to/$libraries"/pmix2/{bin,include}

# Boost: only the headers that Program_options includes, directly or not.
echo '#include <boost/program_options.hpp>' >"$work/boost.cpp"
for standard in 17 20; do g++ "-std=c++$standard" -I"$from/usr/include" -M "$work/boost.cpp"; done |
  grep -o "$from/usr/include/boost/[^ ]*" | sed "s#^$from/usr/include/##" >"$work/headers"
# Other compilers include other files of these folders.
(cd "$from/usr/include" && find boost/config boost/predef boost/mpl/aux_ boost/version.hpp -type f) >>"$work/headers"
sort -u "$work/headers" | tar -C "$from/usr/include" -cf - -T - | tar -C "$to/usr/include" -xf -
cp -a "$from/$libraries"/cmake/{Boost-1.74.0,BoostDetectToolset-1.74.0.cmake,boost_headers-1.74.0,boost_program_options-1.74.0} \
  "$to/$libraries/cmake/"

# The other libraries, whole.
cp -a "$from"/usr/include/{fmt,spdlog,nlohmann,gtest,gmock,benchmark,oneapi,zlib.h,zconf.h} "$to/usr/include/"
cp -a "$from"/usr/include/dnnl* "$to/usr/include/"
[ ! -d "$from/usr/include/x86_64-linux-gnu" ] || cp -aL "$from/usr/include/x86_64-linux-gnu" "$to/usr/include/"
for library in libboost_program_options libfmt libspdlog libz libdnnl libgtest libgtest_main libgmock libgmock_main \
               libbenchmark libbenchmark_main; do
  cp -a "$from/$libraries/$library".* "$to/$libraries/"
done
for package in fmt spdlog GTest benchmark nlohmann_json; do
  for folder in "$libraries/cmake" usr/share/cmake; do
    [ -d "$from/$folder/$package" ] || continue
    mkdir -p "$to/$folder"
    cp -a "$from/$folder/$package" "$to/$folder/"
  done
done

# The libraries that those above need. Programs do not link to these, so they are in another folder, which is in no run path.
# Every machine with a C++ compiler has the libraries in `of_the_compiler`.
of_the_compiler='^(libc|libm|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s|libgomp|ld-linux-x86-64)\.so'
mkdir "$to/needed"
programs_and_libraries() { find "$to" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/usr/bin/*' \); }
while :; do
  needed=$(programs_and_libraries | xargs readelf -d | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
  is_complete=yes
  for name in $needed; do
    if [[ $name =~ $of_the_compiler ]] || [ -e "$to/$libraries/$name" ] || [ -e "$to/needed/$name" ]; then continue; fi
    [ -e "$from/$libraries/$name" ] || fail "no package in the list contains $name"
    cp -aL "$from/$libraries/$name" "$to/needed/"
    is_complete=no
  done
  [ $is_complete = no ] || break
done
programs_and_libraries | xargs strip --strip-unneeded
find "$to" -name '*.a' -exec strip --strip-debug {} +

# Absolute links lead out of the bundle.
find "$to" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  target=$(readlink "$link")
  target=${target/#\/lib\//\/usr\/lib\/}
  ln -sfn "$(realpath -m --relative-to="${link%/*}" "$to$target")" "$link"
done
broken=$(find "$to" -type l -lname '/*'; find "$to" -xtype l)
[ -z "$broken" ] || fail "these links are absolute or lead nowhere: $broken"

cp scripts/gpu_bundle_env.sh "$to/env.sh"
(cd "$work/packages" && printf '%s\n' *.deb) >"$to/PACKAGES"
for package in "${packages[@]}"; do
  copyright=$from/usr/share/doc/$package/copyright
  [ ! -e "$copyright" ] || cp -L "$copyright" "$to/doc/$package.copyright"
done
mkdir -p "$(dirname "$archive")"
tar -C "$work" --owner=0 --group=0 -czf "$archive.part" horo-deps
mv "$archive.part" "$archive"
echo "$archive: $(stat -c %s "$archive") bytes, $(find "$to" -type f | wc -l) files"
