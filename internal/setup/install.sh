#!/bin/sh
# pcs-capacity-install: installs the package on a node and, on AWS PCS, cli_filter.lua, without
# which srun fails where the cluster has it switched on. Whatever fails is said, and the node
# goes on: it runs jobs without the package.
FROM=${1:-'URL'}
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
PCS=${PCS_CAPACITY_PCS_FOLDER:-/etc/aws/pcs/scheduler}
say() {
  echo "pcs-capacity-install: $*" >&2
  logger -t pcs-capacity-install "$*" 2>/dev/null || :
}
# The file system of a path may be mounted only later in the boot.
fetch() {
  case $FROM in
  https://*) curl -fsSL --max-time 120 --retry 3 -o "$1" "$FROM" ;;
  s3://*) timeout 180 aws s3 cp --only-show-errors "$FROM" "$1" ;;
  *)
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do [ -r "$FROM" ] && break; sleep 5; done
    cp "$FROM" "$1"
    ;;
  esac
}
manager() {
  case ${FROM%%\?*} in
  *.deb) timeout 120 dpkg --install "$1" ;;
  *.rpm) timeout 120 rpm --upgrade --replacepkgs "$1" ;;
  *) echo "it is neither a .deb nor a .rpm" && false ;;
  esac
}
# Others install at boot too, and hold the package manager's lock.
install() {
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    SAYS=$(manager "$1" 2>&1) && return
    case $SAYS in
    *lock*) sleep "${PCS_CAPACITY_PAUSE:-5}" ;;
    *) break ;;
    esac
  done
  say "$SAYS"
  return 1
}
DIR=$(mktemp -d)
if fetch "$DIR/package" && install "$DIR/package"; then
  say "installed ${FROM%%\?*}"
else
  say "${FROM%%\?*} was not installed; this node runs jobs without it"
fi
rm -rf "$DIR"
for FOLDER in "$PCS"/slurm-*; do
  if [ ! -d "$FOLDER" ] || [ -e "$FOLDER/cli_filter.lua" ]; then continue; fi
  SLURM_CONF=$FOLDER/slurm.conf pcs-capacity --yes hooks install cli_filter && continue
  say "$FOLDER/cli_filter.lua lets every job through"
  cat >"$FOLDER/cli_filter.lua.new" <<'LUA' && mv "$FOLDER/cli_filter.lua.new" "$FOLDER/cli_filter.lua"
-- Written by pcs-capacity-install, where the package could not be installed.
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
LUA
done
exit 0
