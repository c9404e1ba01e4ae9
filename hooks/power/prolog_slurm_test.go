package power_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// prologs is a power whose nodes run pcs-capacity-prolog beside a site's own programs: as
// Prolog by a pattern that finds both, as TaskProlog from the site's script. The block of
// partition other is in another zone than that of partition gpu.
type prologs struct {
	*power
	scripts string
}

func startPrologs(t *testing.T) prologs {
	t.Helper()
	p := prologs{scripts: hookstest.ShortDir(t)}
	p.power = startPower(t, powerConfig, func(cfg *slurmlab.Config) {
		for name, text := range map[string]string{
			"d/10-site": "echo site $SLURMD_NODENAME $SLURM_JOB_ID >>" + p.scripts +
				"/site.log\nexit $(($SLURM_JOB_UID - $SLURM_JOB_UID))\n",
			"d/50-ours": "read -r AWS_EC2_METADATA_SERVICE_ENDPOINT <" + p.scripts + "/metadata-$SLURMD_NODENAME\n" +
				"export AWS_EC2_METADATA_SERVICE_ENDPOINT\nexec " + hookstest.Program(t, "pcs-capacity-prolog") + "\n",
			"task": "echo export SITE=here\n" + hookstest.Program(t, "pcs-capacity-prolog") + " || :\n",
		} {
			path := filepath.Join(p.scripts, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
				t.Fatal(err)
			}
		}

		cfg.Extra = append(cfg.Extra, "Prolog="+p.scripts+"/d/*", "TaskProlog="+p.scripts+"/task")
	})
	p.pass()
	p.wait(p.submit("-p", "other", "-N1", "-t", "10"), "COMPLETED") // gives us an instance in the other zone

	return p
}

// boots starts nodes of partition gpu, each with the metadata of an instance of a node.
func (p prologs) boots(instances map[string]string) {
	p.t.Helper()

	for node := range instances {
		p.scontrol("update", "nodename="+node, "state=POWER_UP")
	}

	for node, as := range instances {
		if _, err := p.cluster.WaitNode(hookstest.Deadline(p.t), node, func(s string) bool {
			return s == "IDLE+CLOUD"
		}); err != nil {
			p.t.Fatal(err)
		}

		p.metadata(node, p.sim.MetadataURL(p.instances()[as].ID))
	}
}

// metadata is where a node finds that of its instance.
func (p prologs) metadata(node, url string) {
	p.t.Helper()

	if err := os.WriteFile(filepath.Join(p.scripts, "metadata-"+node), []byte(url+"\n"), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// job runs a job on a node and returns its output.
func (p prologs) job(args ...string) string {
	p.t.Helper()

	out, err := p.cluster.Command(hookstest.Deadline(p.t), "srun", append([]string{"-Q"}, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}

	return out
}

func (p prologs) log() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log", "prolog.log"))
	return string(text)
}

// state is that of a node, which a Prolog that fails would drain.
func (p prologs) nodeState(node string) string {
	p.t.Helper()

	fields, err := p.cluster.Node(hookstest.Deadline(p.t), node)
	if err != nil {
		p.t.Fatal(err)
	}

	return fields["State"]
}

func TestSlurm_R6_Prolog(t *testing.T) {
	p := startPrologs(t)
	p.boots(map[string]string{"gpu-1": "gpu-1", "gpu-2": "other-1"})
	before := len(p.log())

	snap, err := p.state.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}

	block, _ := snap.Reservation(hookstest.BlockID)
	w := snap.Timing.Window(block)
	want := fmt.Sprintf(
		"PCS_CAPACITY_END=%d\nPCS_CAPACITY_FACTS=%s\nPCS_CAPACITY_FENCE=%d\nPCS_CAPACITY_RECLAIM=%d\nPCS_CAPACITY_REQUEUE=%d\nPCS_CAPACITY_RESERVATION_ID=%s\nSITE=here",
		w.End.Unix(),
		p.state.JobFactsPath("gpu"),
		w.Fence.Unix(),
		w.Reclaim.Unix(),
		capacity.RequeueAt(w.Fence, snap.KillWait.Duration).Unix(),
		hookstest.BlockID,
	)
	show := []string{"sh", "-c", "env | grep -E '^(PCS_CAPACITY|SITE)' | sort"}
	on := func(node string, more ...string) []string {
		return append([]string{"-t", "10", "-p", strings.Split(node, "-")[0], "-w", node}, more...)
	}

	t.Run("a task", func(t *testing.T) {
		out := p.job(append(on("gpu-1"), show...)...)
		if out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	})
	t.Run("a batch script", func(t *testing.T) {
		id, err := p.cluster.Submit(hookstest.Deadline(t), strings.Join(show[2:], ""), on("gpu-1")...)
		if err != nil {
			t.Fatal(err)
		}

		p.wait(id, "COMPLETED")

		out, err := os.ReadFile(filepath.Join(p.cluster.Dir(), "jobs", id+".out"))
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%v %s", err, out)
		}
	})
	// Neither what a user wrote in the comment nor what the environment brings along counts.
	t.Run("hostile text", func(t *testing.T) {
		out := p.job(
			append(on(
				"gpu-1",
				"--comment",
				"capacity_reservation_id="+hookstest.OtherID+"\nexport PCS_CAPACITY_END=1 $(reboot) '\"`",
				"--job-name",
				"$(reboot)",
				"--export",
				"ALL,PCS_CAPACITY_END=1,SLURM_SCRIPT_CONTEXT=prolog_slurmd,SLURMD_NODENAME=other-1",
			), show...)...)
		if out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	})
	t.Run("a node that is not ours", func(t *testing.T) {
		out := p.job(append([]string{"-p", "static", "--export", "ALL,PCS_CAPACITY_END=1"}, show...)...)
		if out != "SITE=here" {
			t.Errorf("got %q", out)
		}
	})

	for line := range strings.Lines(p.log()[before:]) {
		if !strings.Contains(line, `"msg":"the instance matches its reservation"`) ||
			!strings.Contains(line, `"node":"gpu-1","slot":"gpu","job":"`) {
			t.Errorf("nothing differs, and is logged: %s", line)
		}
	}

	t.Run("an instance in another zone", func(t *testing.T) {
		if out := p.job(append(on("gpu-2"), show...)...); out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}

		log := p.log()
		if !strings.Contains(log, "is in use2-az2, but reservation "+hookstest.BlockID+" is in use2-az1") ||
			!strings.Contains(log, `"node":"gpu-2"`) {
			t.Errorf("log: %s", log)
		}

		report := p.pass()
		if !strings.Contains(
			strings.Join(report.Texts(capacity.Admin), "\n"),
			"node gpu-2: its instance "+p.instances()["other-1"].ID+" is in use2-az2",
		) {
			t.Errorf("problems: %q", report.Texts(capacity.Admin))
		}

		if state := p.nodeState("gpu-2"); strings.Contains(state, "DRAIN") {
			t.Errorf("gpu-2 is %s", state)
		}
	})
	t.Run("and the right one again", func(t *testing.T) {
		p.metadata("gpu-2", p.sim.MetadataURL(p.instances()["gpu-2"].ID))
		p.job(on("gpu-2", "true")...)

		if report := p.pass(); strings.Contains(strings.Join(report.Texts(capacity.Admin), "\n"), "gpu-2") {
			t.Errorf("problems: %q", report.Texts(capacity.Admin))
		}
	})

	// R6: whatever is wrong on our side, the job starts. What hangs does so for good.
	p.metadata("gpu-2", p.sim.MetadataURL(p.instances()["other-1"].ID))

	trouble := func(name string, env string, cause, fix func()) {
		t.Run("R6_"+name, func(t *testing.T) {
			before := len(p.log())

			cause()

			defer fix()

			out := p.job(append(on("gpu-2"), show...)...)
			if out != env {
				t.Errorf("got\n%s\nwant\n%s", out, env)
			}

			if more := p.log()[before:]; strings.Contains(more, "use2-az2") {
				t.Errorf("logged %s", more)
			}

			if kept, err := p.state.Misplaced(); len(kept) > 0 {
				t.Errorf("%v kept %v", err, kept)
			}

			if state := p.nodeState("gpu-2"); strings.Contains(state, "DRAIN") {
				t.Errorf("gpu-2 is %s", state)
			}
		})
	}
	for _, f := range []awssim.Fault{
		{Effect: awssim.CutBefore},
		{Effect: awssim.Silent},
		{Effect: awssim.FailBefore},
		{Effect: awssim.FailBefore, Status: 403, Operation: "availability-zone-id"},
	} {
		f.Service = "imds"
		trouble(strings.TrimSpace(string(f.Effect)+" "+f.Operation), want, func() {
			if _, err := p.sim.AddFault(f); err != nil {
				t.Fatal(err)
			}
		}, p.sim.ClearFaults)
	}

	trouble(
		"nothing listens",
		want,
		func() { p.metadata("gpu-2", "http://127.0.0.1:1") },
		func() { p.metadata("gpu-2", p.sim.MetadataURL(p.instances()["other-1"].ID)) },
	)

	aside := p.state.SnapshotPath() + ".aside"
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	trouble(
		"no snapshot",
		"SITE=here",
		func() { move(p.state.SnapshotPath(), aside) },
		func() { move(aside, p.state.SnapshotPath()) },
	)
	// a FIFO never answers a reader
	for name, path := range map[string]string{"snapshot": p.state.SnapshotPath(), "settings": p.settings()} {
		trouble(name+" hangs", "SITE=here", func() {
			move(path, aside)

			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}, func() { move(aside, path) })
	}

	if site, _ := os.ReadFile(filepath.Join(p.scripts, "site.log")); strings.Count(string(site), "site gpu-2 ") < 10 {
		t.Errorf("the site's Prolog did not run for each job: %s", site)
	}
}
