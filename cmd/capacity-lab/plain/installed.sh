# shellcheck shell=sh
# The folders that the package makes.
mkdir -p /etc/pcs-capacity/conf.d /var/lib/pcs-capacity /var/cache/pcs-capacity /var/log/pcs-capacity
chown slurm: /var/lib/pcs-capacity /var/log/pcs-capacity
[ ! -e /etc/pcs-capacity/environment ] || {
	chgrp slurm /etc/pcs-capacity/environment
	chmod 640 /etc/pcs-capacity/environment
}
