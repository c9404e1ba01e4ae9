# shellcheck shell=sh
# The devices of eight GPUs, as the driver makes them.
for n in 0 1 2 3 4 5 6 7; do mknod -m 666 "/dev/nvidia$n" c 1 3; done
