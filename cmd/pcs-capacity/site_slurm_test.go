package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// plainSlurm is what slurm.conf says before anybody thought of power saving. It has no PrologSlurmctld: of a job that
// waits for one Slurm loses the launch when slurmctld is restarted, and starts it again minutes later.
func plainSlurm(c *slurmlab.Config) {
	c.ResumeProgram, c.SuspendProgram = "", ""
	c.CloudGroups[0].AlwaysOn, c.CloudGroups[0].GPUs = false, 8
	c.GresConf = siteGres
	c.Extra = []string{
		"ResumeProgram=",
		"SuspendProgram=",
		"SuspendTime=",
		"ResumeTimeout=1",
		"SuspendTimeout=1",
		"SuspendExcNodes=",
		"PrologSlurmctld=",
	}
}

const siteGres = "NodeName=static-1 AutoDetect=off # the site's\n"

// onThisMachine has 600 s of SuspendTime pass in the time of a test, and GPUs where the lab has them.
func (w *wired) onThisMachine() {
	w.Helper()
	w.replace("pcs-capacity.conf", "SuspendTime=600", "SuspendTime=4")
	w.replace("pcs-capacity-gres.conf", "/dev/nvidia", w.cluster.Dir()+"/dev/gpu")

	if err := w.restartSlurm(); err != nil {
		w.Fatal(err)
	}
}

func (w *wired) replace(name, old, new string) {
	w.Helper()
	path := filepath.Join(w.etc, name)

	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, new)), 0o644)
	}

	if err != nil {
		w.Fatal(err)
	}
}

// siteJob runs a job in the partition that is not ours, until the test ends it: it has run once then.
func (w *wired) siteJob() (end func()) {
	w.Helper()
	file := filepath.Join(w.TempDir(), "end")

	id, err := w.cluster.Submit(
		w.Context(),
		"while ! [ -e "+file+" ]; do sleep 0.2; done",
		"-p",
		"static",
		"-n",
		"1",
		"-t",
		"5",
	)
	if err == nil {
		_, err = w.cluster.WaitJob(w.Context(), id, "RUNNING")
	}

	if err != nil {
		w.Fatal(err)
	}

	return func() {
		w.Helper()

		if err := os.WriteFile(file, nil, 0o644); err != nil {
			w.Fatal(err)
		}

		if job, err := w.cluster.WaitJob(w.Context(), id, "COMPLETED"); err != nil || job["Restarts"] != "0" {
			w.Errorf("the site's job: restarts %s, %v", job["Restarts"], err)
		}
	}
}

// A plain slurm.conf with a static node gets our nodes, more of them, and loses them again, while a job runs on the
// site's node. Jobs have the GPUs of ours, whatever gres.conf says of the site's. An idle node of ours is powered
// down; the site's stays, idle for longer.
func TestLong_R9_SitesOwnNodesStay(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	w := newWiredOn(t, plainSlurm)
	w.configure(func(text string) string { return text + "dynamic = true\n" })
	end := w.siteJob()
	// Slurm does not start with this and a cloud node that says nothing of it.
	w.replace("gres.conf", siteGres, siteGres+"AutoDetect=nvml\n")
	w.hooks("install")
	w.sync()

	if _, found := w.check(); hasFailed(found, "static-nodes") {
		t.Errorf("%+v", found)
	}

	if running, err := (&slurm.Client{}).Config(t.Context()); err != nil || running.ResumeTimeout != time.Second ||
		running.SuspendTimeout != time.Second ||
		running.SuspendTime != 0 {
		t.Errorf("power saving of the site's nodes has changed: %+v, %v", running, err)
	}

	w.onThisMachine()
	end()
	// The node boots for longer than the site's ResumeTimeout.
	id, err := w.cluster.Submit(t.Context(), "true", "-p", "gpu", "-w", "gpu-1", "-t", "5", "--gres=gpu:8")
	if err == nil {
		_, err = w.cluster.WaitJob(t.Context(), id, "COMPLETED")
	}

	if err != nil {
		t.Fatal(err)
	}

	w.wait("an idle node of ours is powered down", func() bool { return strings.Contains(w.node("gpu-1"), "POWER") })

	if state := w.node("static-1"); state != "IDLE" {
		t.Errorf("the site's idle node is %s", state)
	}

	end = w.siteJob()
	w.configure(func(text string) string {
		return strings.Replace(text, "max_nodes = 4", "max_nodes = 5", 1) + "dynamic = true\n"
	})
	w.hooks("install")
	w.replace("gres.conf", "AutoDetect=nvml\n", "") // gpu-1 stays: slurm.conf has its line
	w.hooks("remove")
	end()

	if text, err := os.ReadFile(filepath.Join(w.etc, "gres.conf")); err != nil || string(text) != siteGres {
		t.Errorf("gres.conf is %s, %v", text, err)
	}

	w.wait("the site's node is idle", func() bool { return w.node("static-1") == "IDLE" })
}

func hasFailed(found capacity.Problems, id string) bool {
	for _, f := range found {
		if f.About.Check == id && f.Severity != capacity.Good {
			return true
		}
	}

	return false
}

func (w *wired) node(name string) string {
	w.Helper()

	node, err := w.cluster.Node(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}

	return node["State"]
}

func (w *wired) wait(what string, done func() bool) {
	w.Helper()

	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()

	if slurmlab.WaitUntil(ctx, done) != nil {
		w.Fatalf("not seen: %s", what)
	}
}
