#!/bin/sh
# pcs-capacity: starts slurmd under the name of the node that this instance was launched for.
# The launch wrote the names of all its nodes into tags; the launch index is the place in them.
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/opt/slurm/sbin:/opt/slurm/bin
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
  echo "pcs-capacity: the instance metadata does not say which node this is (launch index '$INDEX', nodes '$NODES')" >&2
  exit 1
fi
# The controller may be restarting, or not be reached yet. Slurm gives the node up at ResumeTimeout.
TRIES=180
until slurmd -N "$NODE" CONF_SERVER
do
  TRIES=$((TRIES - 1))
  if [ "$TRIES" = 0 ]; then
    echo "pcs-capacity: slurmd does not start; what it says is above" >&2
    exit 1
  fi
  sleep "${PCS_CAPACITY_PAUSE:-5}"
done
