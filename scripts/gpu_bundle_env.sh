# shellcheck shell=bash
# Source this file in bash: programs and builds of the shell then use the libraries in the folder of this file, which
# scripts/make_gpu_bundle.sh made. It must stay in that folder, and the folder must be writable.
#
# A library that the machine has is not replaced: only the libraries that the machine lacks go to LD_LIBRARY_PATH, behind
# what is there. Open MPI's own libraries always go there, because they must match its components in this folder.
_horo_bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || return 1

_horo_libraries=$_horo_bundle/usr/lib/x86_64-linux-gnu
_horo_selected=$_horo_bundle/selected
mkdir -p "$_horo_selected" || return 1
_horo_machine=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null)
for _horo_library in "$_horo_libraries"/lib*.so.* "$_horo_bundle"/needed/lib*.so.*; do
  [ -e "$_horo_library" ] || continue
  _horo_name=${_horo_library##*/}
  case $_horo_name in
    libmpi*.so.* | libopen-*.so.* | libmca_common_*.so.* | libpmix.so.*) _horo_is_missing=yes ;;
    *) case $_horo_machine in *[[:space:]]"$_horo_name (libc6,x86-64"*) _horo_is_missing=no ;; *) _horo_is_missing=yes ;; esac ;;
  esac
  if [ $_horo_is_missing = yes ]; then
    ln -sfn "..${_horo_library#"$_horo_bundle"}" "$_horo_selected/$_horo_name" || return 1
  else
    rm -f "$_horo_selected/$_horo_name"
  fi
done
case :${LD_LIBRARY_PATH:-}: in
  *:"$_horo_selected":*) ;;
  *) export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$_horo_selected ;;
esac
unset _horo_library _horo_name _horo_machine _horo_selected _horo_is_missing

# Programs and builds. The folder of programs holds those of Open MPI only.
export PATH=$_horo_bundle/usr/bin:$PATH
export MPI_HOME=$_horo_bundle/usr CMAKE_PREFIX_PATH=$_horo_bundle/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
export OMPI_CC=${OMPI_CC:-gcc} OMPI_CXX=${OMPI_CXX:-g++}

# Where Open MPI and PMIx find their files.
export OPAL_PREFIX=$_horo_bundle/usr OPAL_SYSCONFDIR=$_horo_bundle/etc/openmpi
export PMIX_PREFIX=$_horo_libraries/pmix2 PMIX_LIBDIR=$_horo_libraries/pmix2/lib PMIX_PKGLIBDIR=$_horo_libraries/pmix2/lib/pmix
export PMIX_DATADIR=$_horo_libraries/pmix2/share PMIX_PKGDATADIR=$_horo_libraries/pmix2/share/pmix
export PMIX_SYSCONFDIR=$_horo_libraries/pmix2/etc
unset _horo_bundle _horo_libraries

# Ranks of one machine, also in containers: no ssh, no fabric, no access to the memory of other processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_osc=sm,rdma
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none HWLOC_HIDE_ERRORS=2
