#!/bin/sh
# systemd.sh FOLDER installs, runs, upgrades and removes the DEB of dist/ under a systemd that is
# process 1 of a container, with the lab of the other package as its AWS and Slurm. FOLDER is the
# Debian that the container boots; nothing in it changes. Without FOLDER: what runs inside.
set -eu
cd "${0%/*}/.."
if [ $# = 1 ]; then
	log=$(mktemp)
	systemd-nspawn --quiet --register=no --keep-unit --volatile=overlay --directory="$1" --bind="$log:/log" \
		--bind-ro="$PWD/dist:/checkout/dist" --bind-ro="$PWD/packaging:/checkout/packaging" \
		--console=pipe --boot systemd.run=/checkout/packaging/systemd.sh </dev/null && status=0 || status=$?
	cat "$log"
	rm "$log"
	exit "$status"
fi
[ -e /checkout ] && exec >/log 2>&1 # it is not for a machine that people use
trap 'status=$?; [ $status = 0 ] || { echo "FAILED"; journalctl --no-pager -u pcs-capacity-sync | tail -n 30; }' EXIT

unit=pcs-capacity-sync
dropin=/etc/systemd/system/$unit.service.d
say() { printf '%s\n' "-- $*"; }
shows() { systemctl show --value -p "$1" $unit; }
# is STATE PROPERTY=VALUE…: within 30 s.
is() {
	for _ in $(seq 300); do
		[ "$(shows ActiveState)" = "$1" ] && break
		sleep 0.1
	done
	[ "$(shows ActiveState)" = "$1" ] || { echo "$unit is $(shows ActiveState), not $1"; exit 1; }
}
# another waits until another process than one is the service, and active.
another() {
	for _ in $(seq 300); do
		pid=$(shows MainPID)
		[ "$pid" != 0 ] && [ "$pid" != "$1" ] && [ "$(shows ActiveState)" = active ] && return
		sleep 0.1
	done
	echo "the service is still process $1, or $(shows ActiveState)"
	exit 1
}

say "installed, the service waits for its settings"
dpkg -i dist/pcs-capacity_*.deb dist/pcs-capacity-lab_*.deb >/dev/null
is inactive
[ "$(systemctl is-enabled $unit || true)" = disabled ]

say "enabled, it is ready after its first pass"
lab=$(capacity-lab up --detach --dir /lab)
eval "$lab"
pcs-capacity --yes setup --reservation cr-01ab00000000000b1 --queue gpu >/setup 2>&1 || { cat /setup; exit 1; }
pkill -f 'pcs-capacity sync --watch' # the lab's own
mkdir $dropin
sed -n "s/^export \([A-Z_]*=\)'\(.*\)'$/\1\2/p" /lab/env >$dropin/env
printf '[Service]\nEnvironmentFile=%s/env\nWatchdogSec=20s\nTimeoutAbortSec=2s\n' $dropin >$dropin/lab.conf
systemctl daemon-reload
systemctl enable --quiet --now $unit
is active
pcs-capacity status 2>&1 | grep -q 'sync last saw AWS'
pcs-capacity check >/check || true
grep -q '^service  *ok' /check || { cat /check; exit 1; }
scontrol show reservation | grep -q '^ReservationName=pcs-capacity-fence-gpu-a\.'

say "killed, it is started again"
pid=$(shows MainPID)
kill -KILL "$pid"
another "$pid"
[ "$(shows NRestarts)" = 1 ]

say "hanging, it is ended by the watchdog and started again"
kill -STOP "$pid"
another "$pid"
[ "$(shows NRestarts)" = 2 ]
journalctl -u $unit | grep -qi 'watchdog timeout'

say "upgraded, it is the new program that runs"
dpkg -i dist/pcs-capacity_*.deb >/dev/null
another "$pid"

say "with settings that are wrong, it says so and is not started again and again"
settings=$(pcs-capacity config | sed -n '1s/# //p')
cp "$settings" /settings
echo 'no_such_key = 1' | cat - /settings >"$settings"
restarts=$(shows NRestarts)
! systemctl restart $unit 2>/dev/null || exit 1
sleep 7
is failed
[ "$(shows ExecMainStatus)" = 2 ]
[ "$(shows NRestarts)" -le "$restarts" ]
journalctl -u $unit | grep -q 'no_such_key'
cp /settings "$settings"
systemctl start $unit
is active

say "started while AWS is away, it is ready all the same"
echo AWS_ENDPOINT_URL=http://127.0.0.1:9 >>$dropin/env
systemctl restart $unit
is active
journalctl -u $unit | grep -q 'AWS cannot be reached'
scontrol show reservation | grep -q '^ReservationName=pcs-capacity-fence-gpu-a\.'

say "stopped, it ends in good order"
systemctl stop $unit
is inactive
[ "$(shows Result)" = success ]
systemctl start $unit

say "removed, it is gone, and sbatch works"
dpkg -r pcs-capacity-lab pcs-capacity >/dev/null
is inactive
[ "$(shows LoadState)" = not-found ]
[ "$(shows MainPID)" = 0 ]
sbatch --hold -p gpu -t 5 --output=/dev/null --wrap=true 2>/dev/null | grep -q 'Submitted batch job'

say "purged, nothing of it is left"
dpkg -P pcs-capacity >/dev/null
[ ! -e /var/lib/pcs-capacity ] && [ ! -e /etc/pcs-capacity ] && [ ! -e /var/log/pcs-capacity ]
kill "$CAPACITY_LAB_PID"
say "all of it is as it should be"
