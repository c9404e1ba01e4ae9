package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// fakeScontrol answers as slurmctld would that has some nodes and runs no job, and keeps the
// reservations that are made. A file "down" beside it is a slurmctld that does not answer, a
// file "denied" one that lets nobody place reservations.
const fakeScontrol = `#!/bin/sh
dir=${0%/*}
verb= name= nodes= start= end= flags= users= comment= duration=
for word in "$@"; do
  case $word in
  --version) echo 'slurm 25.11.0'; exit;;
  reservationname=*) name=${word#*=};;
  nodes=*) nodes=${word#*=};;
  starttime=uts*) start=${word#*=uts};;
  endtime=uts*) end=${word#*=uts};;
  flags=*) flags=${word#*=};;
  users=*) users=${word#*=};;
  comment=*) comment=${word#*=};;
  duration=*) duration=${word#*=};;
  nodename=* | state=* | reason=*) ;;
  -*) ;;
  *) verb="$verb $word";;
  esac
done
if [ -e "$dir/down" ]; then
  echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2
  exit 1
fi
case $verb in
' show config') echo "ClusterName = ml
SLURM_VERSION = 25.11.0
StateSaveLocation = $dir
KillWait = 30 sec
ResumeTimeout = 1800 sec
CliFilterPlugins = cli_filter/lua
SlurmctldHost[0] = head
SlurmctldParameters = enable_configless
SlurmctldPort = 6817
PrivateData = cloud";;
' show node'*) [ ! -e "$dir/nodes" ] || cat "$dir/nodes";;
' show partition'*) [ ! -e "$dir/partitions" ] || cat "$dir/partitions";;
' show reservation'*) cat "$dir"/reservation-* 2>/dev/null || echo 'No reservations in the system';;
' create reservation' | ' update' | ' delete')
  if [ -e "$dir/denied" ]; then
    echo 'Error: Access/permission denied' >&2
    exit 1
  fi
  if [ "$verb" = ' delete' ]; then
    rm "$dir/reservation-$name" 2>/dev/null || { echo 'Error: Requested reservation is invalid' >&2; exit 1; }
  elif [ "$name" ]; then
    if [ "$verb" = ' update' ]; then # what is not said stays
      read -r old <"$dir/reservation-$name" || { echo 'Error: Requested reservation is invalid' >&2; exit 1; }
      was=${old##* Comment=}
      for word in ${old% Comment=*}; do
        case $word in
        StartTime=*) start=${start:-${word#*=}};;
        EndTime=*) [ "$duration" ] || end=${end:-${word#*=}};;
        Nodes=*) nodes=${nodes:-${word#*=}};;
        Flags=*) flags=${flags:-${word#*=}};;
        Users=*) users=${users:-${word#*=}};;
        esac
      done
      comment=${comment:-$was}
    fi
    echo "ReservationName=$name StartTime=$start EndTime=${end:-$((start + 31536000))} Nodes=$nodes Flags=$flags Users=$users State=INACTIVE Comment=$comment" >"$dir/reservation-$name"
  fi;;
*) echo "fake scontrol: $*" >&2; exit 1;;
esac
`

// fakeSlurm writes Slurm's commands into a folder, which is to come first in PATH. They know
// nodes, as a hostlist each, all in the partition gpu.
func fakeSlurm(dir string, nodes ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var lines strings.Builder
	for _, list := range nodes {
		names, err := hostlist.Expand(list)
		if err != nil {
			return err
		}
		for _, name := range names {
			slot := name[:strings.LastIndexByte(name, '-')]
			fmt.Fprintf(&lines, "NodeName=%s CPUTot=192 RealMemory=1 AvailableFeatures=%s NodeAddr=%[1]s NodeHostName=%[1]s State=IDLE+CLOUD+POWERED_DOWN Partitions=gpu\n", name, slot)
		}
	}
	partition := "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL Default=NO QoS=N/A DefaultTime=NONE MaxTime=UNLIMITED State=UP Nodes=" + strings.Join(nodes, ",") + "\n"
	for name, text := range map[string]string{"scontrol": fakeScontrol, "squeue": "#!/bin/sh\n", "sinfo": "#!/bin/sh\n", "scancel": "#!/bin/sh\n", "sacctmgr": "#!/bin/sh\n", "nodes": lines.String(), "partitions": partition} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// fakeSlurmFor is fakeSlurm for a test, with its PATH.
func fakeSlurmFor(t *testing.T, dir string, nodes ...string) (path string) {
	t.Helper()
	if err := fakeSlurm(dir, nodes...); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// slurmCommand starts and stops a Slurm of a transcript: slurm up NODES…, slurm down.
func slurmCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: slurm up NODES… | slurm down")
	}
	dir := ts.MkAbs("fake-slurm")
	switch args[0] {
	case "up":
		ts.Check(fakeSlurm(dir, args[1:]...))
		if path := ts.Getenv("PATH"); !strings.HasPrefix(path, dir) {
			ts.Setenv("PATH", dir+string(filepath.ListSeparator)+path)
		}
	case "down":
		ts.Setenv("PATH", strings.TrimPrefix(ts.Getenv("PATH"), dir+string(filepath.ListSeparator)))
	default:
		ts.Fatalf("slurm %s: what?", args[0])
	}
}
