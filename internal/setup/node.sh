#!/bin/sh
# pcs-capacity: runs slurmd under the name of the node that this instance was launched for.
# The launch wrote the names of all its nodes into tags; the launch index is the place in them.
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/opt/slurm/sbin:/opt/slurm/bin
ROOT=${PCS_CAPACITY_ROOT:-}
fail() { echo "pcs-capacity: $*" >&2; exit 1; } # on the instance's console
for PROGRAM in curl awk slurmd; do
  command -v $PROGRAM >/dev/null || fail "the image has no $PROGRAM; install it there"
done
IMDS=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest
ask() { curl -sf --max-time 5 --retry 30 --retry-delay 1 --retry-connrefused "$@"; }
TOKEN=$(ask -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$IMDS/api/token")
metadata() { ask -H "X-aws-ec2-metadata-token: $TOKEN" "$IMDS/meta-data/$1"; }
INDEX=$(metadata ami-launch-index)
NODES=$(metadata tags/instance/pcs-capacity:nodes) N=2
while MORE=$(metadata "tags/instance/pcs-capacity:nodes-$N"); do NODES=$NODES,$MORE N=$((N + 1)); done
# scontrol would expand the hostlist, but not without a slurm.conf.
NODE=$(echo "$NODES" | awk -v want="$INDEX" '
function one(name) { if (n++ == want) print name }
{ while ($0 != "") {
    comma = index($0, ","); open = index($0, "[")
    if (!open || comma && comma < open) {
      one(comma ? substr($0, 1, comma - 1) : $0)
      $0 = comma ? substr($0, comma + 1) : ""
      continue
    }
    close_at = index($0, "]")
    parts = split(substr($0, open + 1, close_at - open - 1), part, ",")
    for (i = 1; i <= parts; i++) {
      last = split(part[i], end, "-")
      for (k = end[1] + 0; k <= end[last] + 0; k++) one(substr($0, 1, open - 1) sprintf("%0" length(end[1]) "d", k))
    }
    $0 = substr($0, close_at + 2)
} }')
if [ -z "$INDEX" ] || [ -z "$NODE" ]; then
  fail "the instance metadata does not say which node this is (launch index '$INDEX', nodes '$NODES')"
fi
# needrestart and unattended upgrades restart slurmd, and its jobs die.
if [ -d "$ROOT/etc/needrestart/conf.d" ]; then
  # shellcheck disable=SC2016 # a variable of Perl's
  echo '$nrconf{override_rc}{qr(slurm|munge)} = 0;' >"$ROOT/etc/needrestart/conf.d/pcs-capacity.conf"
fi
if [ -d "$ROOT/etc/apt/apt.conf.d" ]; then
  echo 'Unattended-Upgrade::Package-Blacklist { "slurm"; "munge"; };' >"$ROOT/etc/apt/apt.conf.d/90pcs-capacity"
fi
set -- -N "$NODE" CONF_SERVER
if [ ! -d "$ROOT/run/systemd/system" ]; then
  # The controller may be restarting, or not be reached yet. Slurm gives the node up at ResumeTimeout.
  TRIES=180
  until slurmd "$@"
  do
    TRIES=$((TRIES - 1))
    [ "$TRIES" = 0 ] && fail "slurmd does not start; what it says is above"
    sleep "${PCS_CAPACITY_PAUSE:-5}"
  done
  exit 0
fi
# systemd starts slurmd again, after a reboot too, and shows on the console what it says.
cat >"$ROOT/etc/systemd/system/pcs-capacity-slurmd.service" <<UNIT || fail "the unit of slurmd cannot be written"
[Unit]
Description=slurmd of node $NODE
Wants=network-online.target
After=network-online.target remote-fs.target munge.service
Conflicts=slurmd.service
StartLimitIntervalSec=0
[Service]
EnvironmentFile=-/etc/default/slurmd
EnvironmentFile=-/etc/sysconfig/slurmd
ExecStart=$(command -v slurmd) -D $*
ExecReload=/bin/kill -HUP \$MAINPID
Restart=always
RestartSec=5
KillMode=process
Delegate=yes
LimitNOFILE=131072
LimitMEMLOCK=infinity
LimitSTACK=infinity
TasksMax=infinity
StandardError=journal+console
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now pcs-capacity-slurmd.service || fail "systemd does not start slurmd: systemctl status pcs-capacity-slurmd"
