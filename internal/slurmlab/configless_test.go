package slurmlab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// A Slurm below a prefix comes before the distribution's: the programs of this one are links, whose folder tells.
func TestUsePrefix(t *testing.T) {
	prefix := t.TempDir()
	t.Setenv("PATH", os.Getenv("PATH"))
	if err := slurmlab.UsePrefix(prefix); err == nil || !strings.Contains(err.Error(), "there is no sbin/slurmctld") {
		t.Errorf("an empty folder: %v", err)
	}
	for _, name := range []string{"sbin/slurmctld", "sbin/slurmd", "bin/scontrol"} {
		path := filepath.Join(prefix, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := slurmlab.UsePrefix(prefix); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sbin/slurmctld", "bin/scontrol"} {
		if found, err := exec.LookPath(filepath.Base(name)); err != nil || found != filepath.Join(prefix, name) {
			t.Errorf("%s is %s, %v", name, found, err)
		}
	}
}

// Configless with auth/slurm, as on PCS: nodes have no slurm.conf and the login machine has none.
// A user submits there by what sackd fetched, the submit filter included, also what slurmctld got later.
// It runs alone: its slurmctld has a socket in /run, which TestSlurmlab would find.
func TestLongConfigless(t *testing.T) {
	if _, err := exec.LookPath("sackd"); err != nil {
		t.Skipf("sackd came with 23.11: %v", err)
	}
	cfg := slurmlab.Config{Dir: t.TempDir(), Configless: true, Login: "mkdir /etc/site", CLIFilterLua: filterOf("one")}
	cfg.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-", Partition: "gpu"}}
	cluster := start(t, cfg)
	login := func(words ...string) (string, error) {
		cmd := exec.CommandContext(deadline(t), cluster.OnLogin(), words...)
		cmd.Dir = filepath.Join(cluster.Dir(), "jobs")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := login("sh", "-c", `test -d /etc/site; ls /etc/slurm; echo "${SLURM_CONF-none}"`); err != nil || out != "slurm.key\nnone" {
		t.Errorf("the login machine has %q, %v", out, err)
	}
	if out, err := login("sbatch", "-p", "gpu", "--wrap=true"); err == nil || !strings.Contains(out, "filter one") {
		t.Errorf("the filter did not judge: %q, %v", out, err)
	}
	first := submit(t, cluster, "sleep 1000", "-p", "gpu", "--comment=good")
	waitJob(t, cluster, first, "RUNNING")

	cfg.CLIFilterLua = filterOf("two")
	cfg.CloudGroups = append(cfg.CloudGroups, slurmlab.NodeGroup{Prefix: "new-", Partition: "new"})
	if err := cluster.Reload(deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	if out, err := login("sbatch", "-p", "new", "--wrap=true"); err == nil || !strings.Contains(out, "filter two") {
		t.Errorf("the new filter did not judge: %q, %v", out, err)
	}
	id, err := login("sbatch", "--parsable", "-o", "%j.out", "-p", "new", "--comment=good", `--wrap=srun sh -c 'echo $SLURM_CONF'`)
	if err != nil {
		t.Fatal(id, err)
	}
	waitJob(t, cluster, id, "COMPLETED")
	out, err := os.ReadFile(filepath.Join(cluster.Dir(), "jobs", id+".out"))
	if want := filepath.Join(cluster.Dir(), "spool/new-1/conf-cache/slurm.conf"); err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("the job on a node reads %q, not %s: %v", out, want, err)
	}
	waitJob(t, cluster, first, "RUNNING")
}

// filterOf refuses what is not commented as good.
func filterOf(name string) string {
	return `function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  if options.comment == "good" or os.getenv("SLURM_JOB_ID") then return slurm.SUCCESS end
  slurm.log_error("filter ` + name + `")
  return slurm.ERROR
end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
`
}
