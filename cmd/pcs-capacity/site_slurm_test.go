package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/installed"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// plainSlurm is what slurm.conf says before anybody thought of power saving. It has no
// PrologSlurmctld: of a job that waits for one Slurm loses the launch when slurmctld is restarted,
// and starts it again minutes later.
func plainSlurm(c *slurmlab.Config) {
	c.ResumeProgram, c.SuspendProgram = "", ""
	c.CloudGroups[0].AlwaysOn, c.CloudGroups[0].GPUs = false, 8
	c.GresConf = siteGres
	c.Extra = []string{"ResumeProgram=", "SuspendProgram=", "SuspendTime=", "ResumeTimeout=1", "SuspendTimeout=1", "SuspendExcNodes=", "PrologSlurmctld="}
}

const siteGres = "NodeName=static-1 AutoDetect=off # the site's\n"

// onThisMachine has 600 s of SuspendTime pass in the time of a test, and GPUs where the lab has
// them.
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

// siteJobs submits one job a second to the partition that is not ours, until the test says.
type siteJobs struct {
	w    *wired
	stop chan struct{}
	done sync.WaitGroup
	ids  []string
	errs []error
}

func (w *wired) siteJobs() *siteJobs {
	s := &siteJobs{w: w, stop: make(chan struct{})}
	s.done.Go(func() {
		for {
			id, err := w.cluster.Submit(w.Context(), "sleep 2", "-p", "static", "-n", "1", "-t", "5")
			if err != nil {
				s.errs = append(s.errs, err)
			} else {
				s.ids = append(s.ids, id)
			}
			select {
			case <-s.stop:
				return
			case <-time.After(time.Second):
			}
		}
	})
	return s
}

// end waits for them. None may be refused, wait, or run twice.
func (s *siteJobs) end(atLeast int) {
	s.w.Helper()
	close(s.stop)
	s.done.Wait()
	for _, err := range s.errs {
		s.w.Errorf("a job was refused: %v", err)
	}
	if len(s.ids) < atLeast {
		s.w.Errorf("only %d jobs", len(s.ids))
	}
	for _, id := range s.ids {
		job, err := s.w.cluster.WaitJob(s.w.Context(), id, "COMPLETED")
		if err != nil {
			s.w.Errorf("job %s: %v", id, err)
			continue
		}
		submitted, _ := time.Parse("2006-01-02T15:04:05", job["SubmitTime"])
		began, _ := time.Parse("2006-01-02T15:04:05", job["StartTime"])
		if waited := began.Sub(submitted); job["Restarts"] != "0" || waited > 15*time.Second {
			s.w.Errorf("job %s: restarts %s, waited %s", id, job["Restarts"], waited)
		}
	}
}

// TestLong_R9_SitesOwnNodesStay: a plain slurm.conf with a static node gets our nodes, more of them, and
// loses them again. Jobs have the GPUs of ours, whatever gres.conf says of the site's. Ours are powered down when
// they are idle; the site's stay, and jobs that come
// every second neither wait nor die.
func TestLong_R9_SitesOwnNodesStay(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	w := newWiredOn(t, plainSlurm)
	w.configure(func(text string) string { return text + "dynamic = true\n" })
	jobs := w.siteJobs()
	// Slurm does not start with this and a cloud node that says nothing of it.
	w.replace("gres.conf", siteGres, siteGres+"AutoDetect=nvml\n")
	w.hooks("install")
	if status := w.admin("sync"); status != 0 {
		t.Fatalf("sync: %s", w.said)
	}
	if _, found := w.check(); hasFailed(found, "static-nodes") {
		t.Errorf("%+v", found)
	}
	time.Sleep(2 * time.Second)
	jobs.end(3)

	if running, err := (&slurm.Client{}).Config(t.Context()); err != nil || running.ResumeTimeout != time.Second || running.SuspendTimeout != time.Second || running.SuspendTime != 0 {
		t.Errorf("power saving of the site's nodes has changed: %+v, %v", running, err)
	}
	// The node boots for longer than the site's ResumeTimeout.
	w.onThisMachine()
	id, err := w.cluster.Submit(t.Context(), "true", "-p", "gpu", "-w", "gpu-1", "-t", "5", "--gres=gpu:8")
	if err == nil {
		_, err = w.cluster.WaitJob(t.Context(), id, "COMPLETED")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.wait("an idle node of ours is powered down", func() bool { return strings.Contains(w.node("gpu-1"), "POWER") })
	time.Sleep(2 * time.Second)
	if state := w.node("static-1"); state != "IDLE" {
		t.Errorf("the site's idle node is %s", state)
	}

	jobs = w.siteJobs()
	w.configure(func(text string) string {
		return strings.Replace(text, "max_nodes = 4", "max_nodes = 5", 1) + "dynamic = true\n"
	})
	w.hooks("install")
	w.upgrade()
	time.Sleep(6 * time.Second)
	w.replace("gres.conf", "AutoDetect=nvml\n", "") // gpu-1 stays: slurm.conf has its line
	w.hooks("remove")
	w.manage([]string{"dpkg", "--root=ROOT", "--remove"}, "pcs-capacity")
	time.Sleep(3 * time.Second)
	jobs.end(8)
	if text, err := os.ReadFile(filepath.Join(w.etc, "gres.conf")); err != nil || string(text) != siteGres {
		t.Errorf("gres.conf is %s, %v", text, err)
	}
	if state := w.node("static-1"); state != "IDLE" {
		t.Errorf("the site's idle node is %s", state)
	}
}

// upgrade installs the package of a later release while the service runs, which is started again
// where the package's script asks systemd for it.
func (w *wired) upgrade() {
	w.Helper()
	if w.root == "" {
		w.Log("nothing is upgraded: there are no packages")
		return
	}
	later, err := installed.Later(w.Context(), "../..", os.Getenv(installed.FolderVariable), w.TempDir(), "deb", "99.0.0")
	if err != nil {
		w.Fatal(err)
	}
	stop := w.service()
	w.manage(installed.InstallDEB, later)
	told, err := os.ReadFile(w.root.At("systemctl.log"))
	if err != nil || !strings.Contains(string(told), "try-restart pcs-capacity-sync.service") {
		w.Errorf("systemctl was told %s (%v)", told, err)
	}
	stop()
	stop = w.service()
	if out, err := exec.Command("dpkg-query", "--admindir="+w.root.At("var/lib/dpkg"), "--show", "--showformat=${Version}", "pcs-capacity").Output(); err != nil || !strings.HasPrefix(string(out), "99.0.0") {
		w.Errorf("installed is %s, %v", out, err)
	}
	stop()
}

// service runs `sync --watch` of the package, until the test stops it, and waits for its first pass.
func (w *wired) service() (stop func()) {
	w.Helper()
	began := time.Now()
	command := exec.CommandContext(w.Context(), w.root.At("usr/bin/pcs-capacity"), "--config", w.settings, "sync", "--watch")
	command.Dir, command.Env = w.dir, w.env
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	w.wait("a pass of the service", func() bool {
		snap, err := os.Stat(filepath.Join(w.dir, "state", "snapshot.json"))
		return err == nil && snap.ModTime().After(began)
	})
	return func() {
		w.Helper()
		if err := errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
			w.Errorf("the service ended with %v", err)
		}
	}
}

// manage runs a package manager, where there are packages.
func (w *wired) manage(command []string, what string) {
	w.Helper()
	if w.root == "" {
		return
	}
	if said, err := w.root.Manage(w.Context(), command, what); err != nil {
		w.Fatalf("%v: %s", err, said)
	}
}

func hasFailed(found check.Findings, id string) bool {
	for _, f := range found {
		if f.Check == id && f.Status != check.OK {
			return true
		}
	}
	return false
}

func (w *wired) node(name string) string {
	w.Helper()
	state, err := w.cluster.NodeState(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	return state
}

func (w *wired) wait(what string, done func() bool) {
	w.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("not seen: %s", what)
		}
	}
}
