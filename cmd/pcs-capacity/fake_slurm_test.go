package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// slurmProgram is each of Slurm's programs: it sends its words and squeue's format, and gets its exit status and what it
// prints.
const slurmProgram = `#!/bin/bash
[ "$1" = --version ] && exec echo slurm 25.11.0
exec 3<>/dev/tcp/127.0.0.1/%d
printf '%%s\n' "${0##*/}" "$@" "format=$SQUEUE_FORMAT2" '' >&3
read -r status <&3
[ "$status" = 0 ] && exec cat <&3
cat <&3 >&2
exit 1
`

// fakeSlurm is the model's slurmctld behind Slurm's programs, which are in its StateSave. Its jobs neither start nor
// end.
type fakeSlurm struct {
	sync.Mutex // a test changes it while programs ask
	*model.Slurm

	settings string // more lines of `scontrol show config`
	spare    string // the partition to which gpu lends its nodes
}

func newFakeSlurm(t interface{ Fatal(...any) }, cleanup func(func()), dir string, clock func() time.Time) *fakeSlurm {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	cleanup(func() { l.Close() })

	text := fmt.Appendf(nil, slurmProgram, l.Addr().(*net.TCPAddr).Port)

	err = errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(dir+"/scontrol", text, 0o755),
		os.WriteFile(dir+"/squeue", text, 0o755),
	)
	if err != nil {
		t.Fatal(err)
	}

	f := &fakeSlurm{Slurm: model.New(clock()).Slurm}
	f.StateSave = dir
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			f.serve(conn, clock())
		}
	}()

	return f
}

// up has nodes, as hostlists such as gpu-a-[1-4], and nothing fails.
func (f *fakeSlurm) up(lists ...string) {
	f.Lock()
	defer f.Unlock()

	f.All, f.Before = nil, nil
	for _, list := range lists {
		names, _ := hostlist.Expand(list)
		f.Add("gpu", names[0][:strings.LastIndexByte(names[0], '-')], len(names))
	}
}

// serve answers a program.
func (f *fakeSlurm) serve(conn net.Conn, now time.Time) {
	defer conn.Close()

	verb, said := "", map[string]string{}
	for in := bufio.NewScanner(conn); in.Scan() && in.Text() != ""; {
		switch key, value, is := strings.Cut(in.Text(), "="); {
		case is:
			said[key] = value
		case verb == "scontrol show node ":
			said["nodename"] = key
		case !strings.HasPrefix(key, "-"):
			verb += key + " "
		}
	}

	f.Lock()
	defer f.Unlock()

	f.AdvanceTo(now)

	if text, err := f.answer(verb+said["state"], said); err != nil {
		fmt.Fprintf(conn, "1\n%v\n", err)
	} else {
		fmt.Fprintf(conn, "0\n%s", text)
	}
}

func (f *fakeSlurm) answer(verb string, said map[string]string) (text string, err error) {
	ctx := context.Background()
	if _, err := f.Config(ctx); err != nil {
		return "", err // it is down
	}

	nodes, _ := hostlist.Expand(said["nodes"] + said["nodename"])
	switch verb {
	case "squeue ":
		jobs, _, _ := f.JobsOf(ctx, nil, nil)
		for _, j := range jobs {
			text += squeueRecord(j, said["format"]) + "\n"
		}
	case "scontrol show config ":
		text = "ClusterName = ml\nSLURM_VERSION = 25.11.0\nStateSaveLocation = " + f.StateSave +
			"\nKillWait = 30 sec\nResumeTimeout = 1800 sec\n" +
			"CliFilterPlugins = cli_filter/lua\nSlurmctldHost[0] = head\nSlurmctldParameters = " +
			"enable_configless\nPrivateData = cloud\n" + f.settings
	case "scontrol show node ":
		all, _ := f.Nodes(ctx, nodes...)
		for _, n := range all {
			text += fmt.Sprintf(
				"NodeName=%s CPUTot=192 RealMemory=1 AvailableFeatures=%s Gres=gpu:%d NodeAddr=%[1]s "+
					"NodeHostName=%[1]s "+
					"State=%[4]s Partitions=gpu Reason=%[5]s [root@now]\n",
				n.Name,
				strings.Join(n.Features, ","),
				n.GPUs,
				n.State,
				n.Reason,
			)
		}
	case "scontrol show partition ":
		all, _ := f.Partitions(ctx)
		for _, p := range all {
			text += fmt.Sprintf(
				"PartitionName=%s AllowAccounts=ALL QoS=N/A MaxTime=UNLIMITED State=UP Nodes=%s\n",
				p.Name,
				hostlist.Compress(p.Nodes),
			)
			if f.spare != "" {
				text += fmt.Sprintf("PartitionName=%s AllowAccounts=ALL QoS=N/A MaxTime=UNLIMITED State=UP PriorityTier=0 "+
					"PreemptMode=REQUEUE Nodes=%s\n", f.spare, hostlist.Compress(p.Nodes))
			}
		}
	case "scontrol show reservation ":
		all, _ := f.Reservations(ctx)
		for _, r := range all {
			state := map[bool]string{true: "ACTIVE", false: "INACTIVE"}[r.Active]
			text += fmt.Sprintf(
				"ReservationName=%s StartTime=%d EndTime=%d Nodes=%s Flags=%s Users=%s State=%s Comment=%s\n",
				r.Name,
				r.Start.Unix(),
				r.End.Unix(),
				hostlist.Compress(r.Nodes),
				strings.Join(r.Flags, ","),
				strings.Join(r.Users, ","),
				state,
				r.Comment,
			)
		}
	case "scontrol create reservation ":
		r := model.Reservation{
			Name:    said["reservationname"],
			Nodes:   nodes,
			Users:   strings.Split(said["users"], ","),
			Flags:   strings.Split(said["flags"], ","),
			Comment: said["comment"],
		}

		var start, end int64
		fmt.Sscanf(said["starttime"]+said["endtime"], "uts%duts%d", &start, &end)

		if r.Start = time.Unix(start, 0); end > 0 {
			r.End = time.Unix(end, 0)
		}

		err = f.CreateReservation(ctx, r)
	case "scontrol delete ":
		err = f.DeleteReservation(ctx, said["reservationname"])
	case "scontrol update DRAIN":
		err = f.Drain(ctx, nodes, said["reason"])
	case "scontrol update POWER_UP":
		err = f.PowerUp(ctx, nodes)
	default:
		err = fmt.Errorf("the fake has no %s%v", verb, said)
	}

	return text, err
}

// squeueRecord is what squeue prints of a job in a format of NAME:END,…
func squeueRecord(j capacity.Job, format string) (text string) {
	number := func(is bool) string { return map[bool]string{true: "1", false: "0"}[is] }
	unix := func(t time.Time) string {
		if t.IsZero() {
			return "N/A"
		}
		return fmt.Sprint(t.Unix())
	}

	values := map[string]string{
		"JobID":        j.Shown,
		"JobArrayID":   j.Shown,
		"State":        j.State,
		"TimeLimit":    j.TimeLimit.String(),
		"MinTime":      "0",
		"EligibleTime": unix(j.Eligible),
		"StartTime":    unix(j.Start),
		"EndTime":      unix(j.End),
		"Deadline":     "N/A",
		"RestartCnt":   "0",
		"PriorityLong": number(!j.Held),
		"Requeue":      number(j.Requeue),
		"BatchFlag":    number(j.Batch),
		"NumNodes":     fmt.Sprint(j.NumNodes),
		"NodeList":     hostlist.Compress(j.Nodes),
		"Partition":    j.Partition,
		"UserName":     j.User,
		"Comment":      j.Comment,
	}
	for field := range strings.SplitSeq(format, ",") {
		name, end, _ := strings.Cut(field, ":")
		text += values[name] + end
	}

	return text
}

// addJob adds a job of NODES, a number or a hostlist on which it runs, with a limit and a comment. It is Slurm's next.
func (f *fakeSlurm) addJob(partition, nodes, limit, comment string) {
	f.Lock()
	defer f.Unlock()

	j := f.Submit(model.Job{Never: true})
	j.Partition = partition
	j.User = "ann"
	j.Comment = comment

	j.Batch = true
	j.Requeue = true
	j.TimeLimit, _ = capacity.ParseLimit(limit)
	if n, err := strconv.Atoi(nodes); err == nil {
		j.NumNodes = n
		return
	}

	j.Nodes, _ = hostlist.Expand(nodes)
	j.NumNodes = len(j.Nodes)
	j.State = "RUNNING"
	j.Start = f.Now
	j.End = f.Now.Add(j.TimeLimit.Duration())
	j.Work = 1000 * time.Hour
}

// slurmCommand changes the Slurm of a transcript:
//
//	slurm up NODES…  it runs, and has these nodes
//	slurm down       it does not answer
//	slurm job NODES LIMIT [COMMENT]
//	                 it has one more job, of so many nodes; one that runs, on nodes such as gpu-[1-4]
//	slurm lend NAME  gpu lends its nodes to a partition of that name
//	slurm spare-job NODES LIMIT
//	                 that has one more job
//	slurm denied     this user may change nothing
func slurmCommand(ts *testscript.TestScript, neg bool, args []string) {
	f := ts.Value("slurm").(*fakeSlurm)
	switch args[0] {
	case "up":
		f.up(args[1:]...)
		ts.Setenv("PATH", f.StateSave+":"+ts.Getenv("PATH"))
		// Slurm's clock is the machine's: beside a clock of AWS that stands still, every fence would drift.
		ts.Value("sim").(*awssim.Sim).Clock().SetSpeed(1)
	case "job":
		f.addJob("gpu", args[1], args[2], strings.Join(args[3:], " "))
	case "spare-job":
		f.addJob(f.spare, args[1], args[2], "")
	case "lend":
		f.Lock()
		defer f.Unlock()

		f.spare = args[1]
		f.settings = "PreemptType = preempt/partition_prio\nPreemptMode = REQUEUE\n"
	case "set":
		f.Lock()
		defer f.Unlock()

		f.settings = strings.Join(args[1:], " ") + "\n"
	case "down", "denied":
		f.Lock()
		defer f.Unlock()

		f.Before = func(c model.Call) error {
			switch {
			case args[0] == "down":
				return errors.New("slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)")
			case c.Change:
				return errors.New("Error: Access/permission denied")
			}

			return nil
		}
	default:
		ts.Fatalf("slurm %s: what?", args[0])
	}
}
