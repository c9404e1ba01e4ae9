#!/bin/sh
# DEB: "remove", "purge" or "upgrade". RPM: how many are left: 0 or 1. RPM has no purge.
set -e
case "$1" in
remove | 0 | purge)
	if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	;;
esac
if [ "$1" = purge ]; then
	# dpkg itself has taken config.toml; setup wrote conf.d.
	rm -rf /var/lib/pcs-capacity /var/cache/pcs-capacity /var/log/pcs-capacity /etc/pcs-capacity
fi
