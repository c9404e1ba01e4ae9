#!/bin/sh
# DEB: "remove" or "upgrade". RPM: how many are left: 0 or 1.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then
	systemctl --quiet disable --now pcs-capacity-sync.service || true
fi

# Slurm refuses every submission while its setting is on and the script is gone, so that the
# scripts stay. Without the program that they call, they let every job through.
for folder in /etc/slurm /opt/slurm/etc /etc/aws/pcs/scheduler/slurm*; do
	grep -l 'Written by .pcs-capacity hooks install' "$folder"/*.lua "$folder"/pcs-capacity.conf 2>/dev/null || :
done | while read -r file; do
	case "$file" in
	*.conf)
		echo "pcs-capacity: slurm.conf may include $file, whose programs go now. To be rid of it, take"
		echo "that line out, restart slurmctld, then delete it."
		;;
	*)
		echo "pcs-capacity: $file stays, and soon lets every job through. To be rid of it, first take"
		echo "lua out of Slurm's CliFilterPlugins or JobSubmitPlugins, then delete it."
		;;
	esac
done

# What Slurm's settings name is not ours to change.
for folder in /opt/slurm/bin /opt/aws/pcs/scheduler/slurm-*/bin; do PATH="$PATH:$folder"; done
if named=$(timeout 10 scontrol show config 2>/dev/null | grep /usr/libexec/pcs-capacity/); then
	echo "pcs-capacity: Slurm still has the settings below. Take them out now: it drains nodes without their"
	echo "Prolog, fails tasks without their TaskProlog, and powers no nodes up without its ResumeProgram."
	echo "$named"
fi
