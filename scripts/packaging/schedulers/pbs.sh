#!/usr/bin/env bash
# A job for PBS Pro: 2 hosts with 4 ranks each.   qsub -v PROGRAM=./my_trainer pbs.sh
#PBS -N my_trainer
#PBS -l select=2:ncpus=8:mpiprocs=4
#PBS -l place=scatter
#PBS -l walltime=04:00:00
set -euo pipefail
cd "${PBS_O_WORKDIR:?pbs.sh: submit this file with qsub}"
: "${PROGRAM:?pbs.sh: name the program: qsub -v PROGRAM=./my_trainer pbs.sh}"

prefix=${HORO_PREFIX:-$HOME/horo}
export OMP_NUM_THREADS=2
# PBS lists a host once for each of its ranks.
ranks=$(wc -l < "$PBS_NODEFILE")
hosts=$PBS_O_WORKDIR/hosts.$PBS_JOBID
sort "$PBS_NODEFILE" | uniq -c | awk '{print $2 " slots=" $1}' > "$hosts"
exec "$prefix/bin/hororun" -np "$ranks" --hostfile "$hosts" "$PROGRAM"
