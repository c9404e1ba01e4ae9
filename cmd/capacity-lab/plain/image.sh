# shellcheck shell=sh
# What the image of every machine does when it boots: munged, with the site's key.
mkdir -p /run/munge /var/log/slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd
chown slurm: /var/log/slurm /var/lib/slurm /var/lib/slurm/slurmctld
chmod 600 /etc/munge/munge.key
chown root: /etc/munge/munge.key
munged --force
# Machines have no cgroups. Slurm 22.05 does not know the setting.
[ ! -e /etc/slurm/slurm.conf ] || slurmd -V | grep -q ' 22[.]' || echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf
