#!/usr/bin/env bash
# A job for Slurm: 2 hosts with 4 ranks each.   sbatch slurm.sh ./my_trainer [options of the program]
#SBATCH --job-name=my_trainer
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
# With GPUs:
##SBATCH --gpus-per-node=4
set -euo pipefail
[ $# -ge 1 ] || { echo "slurm.sh: name the program: sbatch slurm.sh ./my_trainer" >&2; exit 2; }

prefix=${HORO_PREFIX:-$HOME/horo}
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
# Open MPI takes the hosts from Slurm. SIGTERM two minutes before the end lets programs of horo::train stop in order.
exec "$prefix/bin/hororun" --grace-time 110s -np "$SLURM_NTASKS" "$@"
