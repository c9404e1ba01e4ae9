package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

func errorsAsCall(err error) bool { return errors.As(err, new(*slurm.CallError)) }

// hookEnvironment runs a client as slurmctld 22.05 runs its programs: with
// closed standard files, and no variable but SLURM_CONF.
func hookEnvironment(t *testing.T, cluster *slurmlab.Cluster, _ *slurm.Client) {
	submit(t, cluster, "sleep 1000")

	self, err := os.Executable()
	check(t, err)
	// This hook is no child of slurmctld, so the Slurm of a prefix is found where `hooks install` has noted it.
	scontrol, err := exec.LookPath("scontrol")
	check(t, err)
	check(
		t,
		os.WriteFile(
			filepath.Join(filepath.Dir(cluster.Conf()), slurm.IncludeFile),
			[]byte(slurm.FolderLine(filepath.Dir(scontrol))),
			0o644,
		),
	)
	result := filepath.Join(t.TempDir(), "result")
	cmd := exec.CommandContext(deadline(t), "/bin/sh", "-c", `exec "$0" <&- >&- 2>&-`, self)
	cmd.Env = []string{"SLURM_CONF=" + cluster.Conf(), probeVariable + "=" + result}
	check(t, cmd.Run())

	if got, err := os.ReadFile(result); err != nil || !strings.HasSuffix(string(got), " error=<nil>") ||
		strings.HasPrefix(string(got), "jobs=0 ") {
		t.Errorf("the hook saw %q, %v", got, err)
	}
}

// userEnvironment: variables that change what Slurm's commands print or ask must not reach them.
func userEnvironment(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	id := submit(t, cluster, "sleep 1000")
	for name, value := range map[string]string{
		"SQUEUE_STATES":     "FAILED",
		"SQUEUE_USERS":      "nobody",
		"SQUEUE_PARTITION":  "nosuch",
		"SLURM_CLUSTERS":    "elsewhere",
		"SLURM_TIME_FORMAT": "relative",
		"LC_ALL":            "de_DE.UTF-8",
		"TZ":                "Asia/Kathmandu",
		"SLURM_DEBUG_FLAGS": "all",
	} {
		t.Setenv(name, value)
	}

	waitJob(t, client, id, any1)

	now := time.Now().Truncate(time.Second)
	check(
		t,
		client.CreateReservation(
			deadline(t),
			capacity.SlurmReservation{
				Name:  "r",
				Nodes: []string{"gpu-1"},
				Start: now.Add(time.Hour),
				End:   now.Add(2 * time.Hour),
				Users: []string{"root"},
			},
		),
	)

	if have := reservation(t, client, "r"); !have.Start.Equal(now.Add(time.Hour)) ||
		!have.End.Equal(now.Add(2*time.Hour)) {
		t.Errorf("%+v", have)
	}

	_, err := cluster.Command(deadline(t), "scontrol", "delete", "reservation=r")
	check(t, err)
}

func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, never answers
	check(t, err)

	defer silent.Close()

	conf := filepath.Join(t.TempDir(), "slurm.conf")
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	check(
		t,
		os.WriteFile(
			conf,
			fmt.Appendf(
				nil,
				"ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=%s\n"+
					"AuthType=auth/none\nCredType=cred/none\nNodeName=a1\n",
				port,
			),
			0o600,
		),
	)

	if _, err := exec.LookPath("squeue"); err != nil {
		t.Fatal("Slurm is not installed; `make test` installs what the tests need")
	}

	for name, client := range map[string]*slurm.Client{
		"slurmctld hangs":    {Conf: conf, Timeout: 200 * time.Millisecond},
		"slurm.conf missing": {Conf: conf + ".missing", Timeout: 200 * time.Millisecond},
	} {
		jobs, err := client.Jobs(deadline(t))
		wantError(t, err, slurm.ErrUnreachable)

		if !errors.Is(err, context.DeadlineExceeded) || jobs != nil {
			t.Errorf("%s: %v, %v; want no jobs and a deadline", name, jobs, err)
		}
	}
}

func TestCommandNotFound(t *testing.T) {
	client := &slurm.Client{Dir: t.TempDir()}
	_, err := client.Jobs(context.Background())
	wantError(t, err, exec.ErrNotFound)

	if !strings.Contains(err.Error(), client.Dir) {
		t.Errorf("the error does not say where it looked: %v", err)
	}
}

// R7: other users of the machine can read the arguments of squeue, and change a comment of
// theirs before slurmctld answers. What their comment may not hold is in the environment.
func TestR7_MarkIsNotAnArgument(t *testing.T) {
	dir := t.TempDir()
	check(
		t,
		os.WriteFile(
			filepath.Join(dir, "squeue"),
			[]byte("#!/bin/sh\necho \"$@\" >"+dir+"/arguments; echo \"$SQUEUE_FORMAT2\" >"+dir+"/format\n"),
			0o755,
		),
	)
	client := slurm.Client{Dir: dir}

	jobs, err := client.Jobs(deadline(t))
	if err != nil || len(jobs) != 0 {
		t.Fatal(jobs, err)
	}

	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	check(t, err)
	format, err := os.ReadFile(filepath.Join(dir, "format"))
	check(t, err)

	_, mark, _ := strings.Cut(strings.TrimSpace(string(format)), "admin_comment:")
	if len(mark) < 20 || strings.Contains(string(arguments), mark) {
		t.Errorf("mark %q, arguments %q", mark, arguments)
	}
}

// What scontrol is asked to change: Slurm refuses a start for a reservation that has started, see activeReservation.
func TestUpdateReservationArguments(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\necho \"$@\" >"+dir+"/arguments\n"), 0o755))
	client := slurm.Client{Dir: dir}
	start := time.Unix(1700000000, 0)

	fence := capacity.SlurmReservation{
		Name:  "fence",
		Nodes: []string{"gpu-1", "gpu-2"},
		Start: start,
		End:   start.Add(time.Hour),
		Users: []string{"root"},
	}
	for active, want := range map[bool]string{
		true:  "update reservationname=fence nodes=gpu-[1-2] endtime=uts1700003600",
		false: "update reservationname=fence nodes=gpu-[1-2] starttime=uts1700000000 endtime=uts1700003600",
	} {
		fence.Active = active
		check(t, client.UpdateReservation(deadline(t), fence))

		got, err := os.ReadFile(filepath.Join(dir, "arguments"))
		check(t, err)

		if strings.TrimSpace(string(got)) != want {
			t.Errorf("active %t: scontrol %swant %s", active, got, want)
		}
	}
}

// Nodes in an unknown format are an error: an empty list would look like a cluster whose nodes are gone.
func TestNodesInAnotherForm(t *testing.T) {
	for name, c := range map[string]struct {
		shown string
		nodes int
		fails bool
	}{
		"as it is": {
			"NodeName=gpu-1 State=IDLE+CLOUD NodeAddr=gpu-1\\nNodeName=gpu-2 State=IDLE+CLOUD NodeAddr=gpu-2\\n",
			2,
			false,
		},
		"a text that users forged": {
			"NodeName=gpu-1 State=IDLE NodeAddr=gpu-1 Comment=x\\nNodeName=gpu-2\\n",
			1,
			false,
		},
		"another key": {"NodeName=gpu-1 NodeState=IDLE NodeAddr=gpu-1\\n", 0, true},
		"no record":   {"Node=gpu-1\\n", 0, true},
		"no nodes":    {"No nodes in the system\\n", 0, false},
	} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\nprintf '"+c.shown+"'\n"), 0o755))

		client := slurm.Client{Dir: dir}
		if nodes, err := client.Nodes(deadline(t)); len(nodes) != c.nodes || (err != nil) != c.fails {
			t.Errorf("%s: %d nodes, %v", name, len(nodes), err)
		}
	}
}
