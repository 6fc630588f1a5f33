#!/usr/bin/env bash
# Several emulated hosts on this machine: each has its own network address, host name, /dev/shm and
# temporary directory, and a link of limited speed to a common switch. MPI treats them as different
# nodes and uses TCP between them. They share the cores of the machine. Needs root.
#
# usage: scripts/cluster_lab.sh COMMAND
#   up N [RATE]      starts host0 ... host<N-1>; RATE limits each direction of each link, in the
#                    format of tc (1gbit, 100mbit; default 1gbit) or is none. Replaces an existing lab.
#   down             ends all processes in the lab and removes it, also an incomplete one
#   status           hosts, addresses, rate, bytes sent and received
#   bytes            a line "HOST SENT RECEIVED" for each host: bytes over its link
#   run NP [MPIRUN-ARGUMENTS --] PROGRAM [ARGUMENTS]
#                    mpirun with NP ranks on every host, host by host, and mpirun's exit code;
#                    arguments for mpirun begin with - and end with --
#   exec HOST PROGRAM [ARGUMENTS]
#                    the program in one host only; mpirun --host host0,host1 there reaches others
#
#   scripts/cluster_lab.sh up 4 1gbit
#   scripts/cluster_lab.sh run 2 --mca btl_base_verbose 1 -- build/release/bin/allreduce_bench
#
# CLUSTER_LAB names the lab (default horo); labs with different names are independent.
# Exit code 2: wrong usage, or this machine cannot have such a lab; one line states the reason.
set -euo pipefail

lab=${CLUSTER_LAB:-horo}
folder=/run/horo-cluster-lab/$lab # one folder for each host; the file "lab" contains: N RATE
subnet=10.77.0
script=$(realpath "$0")

refuse() {
  echo "cluster_lab.sh: $1" >&2
  exit 2
}

usage() { refuse "$1; cluster_lab.sh --help explains the commands"; }

require_root_and_tools() {
  [ "$(id -u)" -eq 0 ] || refuse "not root: network namespaces need root (or sudo)"
  local tool package
  while read -r tool package; do
    command -v "$tool" >/dev/null || refuse "there is no '$tool'; Debian's package $package has it"
  done <<<"ip iproute2
tc iproute2
unshare util-linux
mpirun openmpi-bin"
}

# try WHAT COMMAND...: if the command fails, ends with the last line of its output.
try() {
  local said
  said=$("${@:2}" 2>&1) || refuse "the kernel refuses $1: ${said##*$'\n'}"
}

read_lab() {
  [ -e "$folder/lab" ] || refuse "no lab is up; start one with: cluster_lab.sh up N [RATE]"
  read -r hosts rate <"$folder/lab"
}

limit() { # NAMESPACE INTERFACE
  # The burst is small, so that the rate limit applies to short messages too. A smaller one would
  # split packets of up to 64 KiB, at a high cost in CPU time.
  [ "$rate" = none ] ||
    try "the token-bucket queue (tbf) at $rate" tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 128kb latency 50ms
}

add_host() { # INDEX
  local host=$lab-host$1 switch=$lab-switch
  try "a network namespace" ip netns add "$host"
  try "a veth pair" ip -n "$host" link add eth0 type veth peer name "host$1" netns "$switch"
  try "to join a bridge" ip -n "$switch" link set "host$1" master bridge up
  try "an address" ip -n "$host" address add "$subnet.$(($1 + 1))/24" dev eth0
  try "to start a link" ip -n "$host" link set eth0 up
  try "to start a link" ip -n "$host" link set lo up
  limit "$host" eth0
  limit "$switch" "host$1"
  mkdir -p "$folder/host$1"
  try "a tmpfs" mount -t tmpfs -o mode=755 "$lab-host$1" "$folder/host$1"
  mkdir -m 1777 "$folder/host$1/shm" "$folder/host$1/tmp"
  echo "$subnet.$(($1 + 1)) host$1" >>"$folder/hosts"
}

up() {
  [ "$(cat "$folder/lab" 2>/dev/null)" != "$hosts $rate" ] || exit 0
  down
  trap down EXIT # a failed start leaves nothing behind
  mkdir -p "$folder"
  echo "127.0.0.1 localhost" >"$folder/hosts"
  # The switch has a namespace too, so the interfaces and the firewall of the machine do not change.
  try "a network namespace" ip netns add "$lab-switch"
  try "a bridge" ip -n "$lab-switch" link add bridge type bridge
  try "to start a bridge" ip -n "$lab-switch" link set bridge up
  local i
  for ((i = 0; i < hosts; ++i)); do add_host "$i"; done
  try "a host name of its own" enter host0 true
  echo "$hosts $rate" >"$folder/lab"
  trap - EXIT
}

down() {
  local name pids
  for name in $(ip netns list | cut -d' ' -f1); do
    [[ $name =~ ^$lab-(switch|host[0-9]+)$ ]] || continue
    pids=$(ip netns pids "$name")
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
    ip netns delete "$name"
  done
  rm -f "$folder/lab"
  for name in "$folder"/host*/; do
    ! mountpoint -q "$name" || umount --lazy "$name"
  done
  rm -rf --one-file-system "$folder"
  rmdir --ignore-fail-on-non-empty "${folder%/*}" 2>/dev/null || true
}

bytes() {
  local i statistics=/sys/class/net/eth0/statistics
  for ((i = 0; i < hosts; ++i)); do
    echo "host$i" "$(ip netns exec "$lab-host$i" cat $statistics/tx_bytes $statistics/rx_bytes | xargs)"
  done
}

status() {
  local host sent received
  echo "lab $lab: $hosts hosts, rate $rate"
  bytes | while read -r host sent received; do
    echo "$host  $subnet.$((${host#host} + 1))  sent $sent  received $received bytes"
  done
}

# Replaces this process by the program, inside the host. The settings make every mpirun there use the lab.
enter() { # HOST PROGRAM ARGUMENTS...
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_plm_rsh_agent="${script##*/} agent" PATH="${script%/*}:$PATH" CLUSTER_LAB=$lab
  export OMPI_MCA_btl=tcp,self,vader OMPI_MCA_pml=ob1
  export OMPI_MCA_btl_tcp_if_include=$subnet.0/24 OMPI_MCA_oob_tcp_if_include=$subnet.0/24
  export OMPI_MCA_mpi_yield_when_idle=1 # the hosts share the machine's cores
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  export TMPDIR=$folder/$1/tmp
  # shellcheck disable=SC2016
  exec ip netns exec "$lab-$1" unshare --uts --mount sh -c '
    hostname "$2" && mount --bind "$1/$2/shm" /dev/shm && mount --bind "$1/hosts" /etc/hosts || exit 1
    shift 2; exec "$@"' "$script" "$folder" "$@"
}

run() { # NP [MPIRUN-ARGUMENTS --] PROGRAM...
  local np=$1 i list=() options=()
  shift
  if [[ $1 == -* ]]; then
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
    [ $# -ge 2 ] || usage "no -- and program after mpirun's arguments"
    shift
  fi
  for ((i = 0; i < hosts; ++i)); do list+=("host$i:$np"); done
  enter host0 mpirun -np $((hosts * np)) --host "$(IFS=, && echo "${list[*]}")" "${options[@]}" "$@"
}

command=${1:-}
[ $# -eq 0 ] || shift
case "$command/$#" in
  -h/* | --help/*) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  /*) usage "no command" ;;
  up/[12])
    hosts=$1 rate=${2-1gbit}
    [[ $hosts =~ ^[1-9][0-9]?$ ]] || usage "'$hosts' is not a number of hosts from 1 to 99"
    [[ $rate =~ ^([1-9][0-9]*[kmg]?bit|none)$ ]] || usage "'$rate' is not a rate such as 1gbit, or none" ;;
  run/0 | run/1 | exec/0 | exec/1 | up/*) usage "$command has too few or too many arguments" ;;
  run/*) [[ $1 =~ ^[1-9][0-9]?$ ]] || usage "'$1' is not a number of ranks per host from 1 to 99" ;;
  exec/* | agent/* | down/0 | status/0 | bytes/0) ;;
  down/* | status/* | bytes/*) usage "$command takes no arguments" ;;
  *) usage "unknown command '$command'" ;;
esac
[[ $lab =~ ^[a-z0-9-]+$ ]] || usage "CLUSTER_LAB='$lab' is not made of a-z, 0-9 and - only"
require_root_and_tools
case "$command" in
  up) up; exit ;;
  down) down; exit ;;
esac
read_lab
case "$command" in
  status | bytes | run) "$command" "$@" ;;
  exec)
    [ -d "$folder/$1" ] || usage "'$1' is none of host0 ... host$((hosts - 1))"
    enter "$@" ;;
  # mpirun calls this instead of ssh, with a line for the shell of the host.
  agent) enter "$1" sh -c "${*:2}" ;;
esac
