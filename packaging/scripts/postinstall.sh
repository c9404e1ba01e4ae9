#!/bin/sh
# DEB: "configure" and the version before, if any. RPM: how many are installed now.
set -e
case "$1" in
configure) [ -z "$2" ] && first=yes || first= ;;
1) first=yes ;;
[2-9]*) first= ;;
*) exit 0 ;;
esac

# The hooks run as SlurmUser: on self-managed Slurm they write logs and records.
for folder in /var/lib/pcs-capacity /var/log/pcs-capacity /var/cache/pcs-capacity; do
	[ -d "$folder" ] && continue
	(umask 022 && mkdir -p "$folder")
	case "$folder" in
	/var/cache/*) ;; # only sync writes there
	*) if id slurm >/dev/null 2>&1; then chown slurm: "$folder"; fi ;;
	esac
done

# They read this as SlurmUser; it may hold secrets.
if id slurm >/dev/null 2>&1; then chown ":$(id -g slurm)" /etc/pcs-capacity/environment; fi

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	[ -n "$first" ] || systemctl try-restart pcs-capacity-sync.service || true
fi
if [ -n "$first" ]; then
	echo "pcs-capacity: nothing runs yet. Continue with the quick start on AWS PCS or on"
	echo "self-managed Slurm: /usr/share/doc/pcs-capacity/quick-start-*.md"
fi
