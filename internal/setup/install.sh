#!/bin/sh
# pcs-capacity-install: puts cli_filter.lua on a node of AWS PCS, without which Slurm refuses every
# srun and sbatch there once the cluster runs it, and then installs the package. Whatever fails is
# said, and the node goes on: it runs jobs without the package.
FROM=${1:-'URL'} # of the package; or cli_filter, for the script alone
export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PCS=${PCS_CAPACITY_PCS_FOLDER:-/etc/aws/pcs/scheduler}
say() {
  echo "pcs-capacity-install: $*" >&2
  logger -t pcs-capacity-install "$*" 2>/dev/null || :
}
umask 022 # users read what is written here
put() { cat >"$1.new" && mv "$1.new" "$1"; }
# Before anything that can fail or hang. A script that is there stays.
OURS=
for FOLDER in "$PCS"/slurm-*; do
  if [ ! -d "$FOLDER" ] || [ -e "$FOLDER/cli_filter.lua" ]; then continue; fi
  put "$FOLDER/cli_filter.lua" <<'LUA' || continue
-- Written by `pcs-capacity hooks install` where the package is not installed: lets every job through.
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
LUA
  OURS="$OURS $FOLDER/cli_filter.lua"
  say "$FOLDER/cli_filter.lua lets every job through"
done
[ "$FROM" != cli_filter ] || exit 0
# The file system of a path may be mounted only later in the boot.
fetch() {
  case $FROM in
  https://*) curl -fsSL --max-time 120 --retry 3 --retry-max-time 120 -o "$1" "$FROM" ;;
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
  # `hooks install` would ask Slurm, which waits for a slurm.conf that is not here yet.
  if pcs-capacity hooks print cli_filter >"$DIR/cli_filter.lua"; then
    for FILE in $OURS; do put "$FILE" <"$DIR/cli_filter.lua"; done
  fi
else
  say "${FROM%%\?*} was not installed; this node runs jobs without it"
fi
rm -rf "$DIR"
exit 0
