# shellcheck shell=sh
# The first process of a machine: its root file system, then its network, which the program that
# started it makes, then its init. The machine ends with the program: its standard input ends then.
set -e
name=$1 folder=$2
shift 2
hostname "$name"
mount --make-rprivate /
cd "$folder"
mount -t tmpfs -o mode=755 disk disk
mkdir disk/changed disk/work disk/root
# The root file system alone: nothing else that this machine has mounted.
mount -t overlay -o "lowerdir=/,upperdir=$folder/disk/changed,workdir=$folder/disk/work" root disk/root
cd disk/root
mkdir -p proc sys dev run tmp
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount -t tmpfs -o mode=755 dev dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
for path in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do ln -s "${path#*:}" "dev/${path%%:*}"; done
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 dev/tty c 5 0
mkdir -p "./$folder"
mount --bind "$folder" "./$folder"
while [ $# != 0 ]; do
  if [ -d "$1" ]; then
    mkdir -p "./$2"
  else
    mkdir -p "./${2%/*}"
    : >>"./$2"
  fi
  mount --bind "$1" "./$2"
  shift 2
done
mkdir -p mnt/before
pivot_root . mnt/before
cd /
umount -l /mnt/before
xargs rm -rf <"$folder/hidden"
[ ! -d "$folder/files" ] || cp -r --remove-destination "$folder/files/." / # not through links
printf '127.0.0.1 localhost %s\n' "$name" >>/etc/hosts
read -r _ # the network is there
cut -d. -f1 /proc/uptime | {
  read -r up
  # slurmctld tells by the uptime whether a node has booted since it was powered up.
  unshare --time --boottime "-$up" --fork sh "$folder/init.sh" </dev/null &
}
: >"$folder/booted"
cat >/dev/null || :
