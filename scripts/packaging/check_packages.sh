#!/usr/bin/env bash
# Installs the packages in a bare Debian 12, and runs a user's program: with apt as root, and from the archive without root.
#
# usage: scripts/packaging/check_packages.sh ROOT [BUILD]
#   ROOT    a Debian 12: debootstrap --variant=minbase bookworm ROOT
#   BUILD   where cpack wrote the packages; default: build/package
#
# Needs root and a network. Prints the commands of the user with their times.
set -euo pipefail
cd "$(dirname "$0")/../.."

case "${1:-}" in
  -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  "" | -*) echo "check_packages.sh: name the folder of a Debian 12; check_packages.sh --help" >&2; exit 2 ;;
esac
root=$1 build=${2:-build/package}
[ -x "$root/usr/bin/apt-get" ] || { echo "check_packages.sh: $root has no apt-get: debootstrap --variant=minbase bookworm $root" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "check_packages.sh: chroot needs root" >&2; exit 2; }
shopt -s nullglob
packages=("$build"/*.deb) archives=("$build"/*.tar.gz)
[ ${#packages[@]} -eq 2 ] && [ ${#archives[@]} -eq 1 ] || {
  echo "check_packages.sh: $build has ${#packages[@]} DEB and ${#archives[@]} TGZ files in place of 2 and 1: cpack --preset package" >&2
  exit 2
}

mounted=()
finish() { for place in "${mounted[@]}"; do umount "$place"; done; }
trap finish EXIT
mount --bind /proc "$root/proc" && mounted+=("$root/proc")
mkdir -p "$root/dev/shm" && mount -t tmpfs -o size=256m tmpfs "$root/dev/shm" && mounted+=("$root/dev/shm")
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost $(hostname)" > "$root/etc/hosts"

# as USER COMMAND: prints the command, runs it in ROOT, and prints its time.
as() {
  local user=$1 command=$2 start=$EPOCHREALTIME
  echo "$ $command"
  chroot "$root" su - "$user" -c "export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; $command" > "$root/tmp/output" 2>&1 ||
    { tail -40 "$root/tmp/output"; echo "check_packages.sh: failed: $command" >&2; exit 1; }
  tail -n "${3:-2}" "$root/tmp/output" | sed 's/^/    /'
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "    (%.1f s)\n", b - a }'
}
prints() { grep -q "$1" "$root/tmp/output" || { cat "$root/tmp/output"; echo "check_packages.sh: '$1' was not printed" >&2; exit 1; }; }

rm -rf "$root/root/user" && mkdir -p "$root/root/user"
cp "${packages[@]}" "$root/root/user"
cp -r tests/install/consumer "$root/root/user"
as root "apt-get update"

echo "== the package, as root"
as root "cd user && apt-get install -y ./horo_*.deb"
as root "cd user && g++ -std=c++20 consumer/sum_ranks.cpp -o my_trainer \$(pkg-config --cflags --libs horo)"
as root "cd user && hororun -np 2 ./my_trainer"
prints "rank 1 of 2: 3"
as root "cd user && ldd ./my_trainer | grep -c 'not found' | grep -x 0"

echo "== the package of the trainer, with CMake"
as root "cd user && apt-get install -y ./horo-train_*.deb make"
as root "cd user && cmake -S consumer -B build -DWITH_TRAIN=ON -DCMAKE_BUILD_TYPE=Release && cmake --build build --target train_digits sum_ranks"
as root "cd user && hororun -np 2 build/train_digits"
prints "rank 1 of 2: 8 steps"

echo "== the archive, without root"
as root "apt-get purge -y horo horo-train && (id trainer || useradd --create-home trainer) && rm -rf /home/trainer/horo* /home/trainer/my_trainer"
as root "! ls /usr/lib/libhoro* /usr/include/horo /usr/lib/cmake/horo" 5
cp "${archives[@]}" tests/install/consumer/sum_ranks.cpp "$root/home/trainer"
as trainer "tar xzf horo-*.tar.gz && mv horo-*/ horo"
as trainer "g++ -std=c++20 sum_ranks.cpp -o my_trainer \$(PKG_CONFIG_PATH=horo/lib/pkgconfig pkg-config --cflags --libs horo)"
as trainer "horo/bin/hororun -np 2 ./my_trainer"
prints "rank 1 of 2: 3"
echo "check_packages.sh: all passed"
