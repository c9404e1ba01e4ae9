package submit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// A site's own scripts: one rule that refuses, and one that sends jobs elsewhere.
const (
	siteCLIFilter = `
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  if options["job-name"] == "refused" then
    slurm.log_error("the site refuses")
    return slurm.ERROR
  end
  if options["job-name"] == "moved" then options["partition"] = "gpu" end
  if options["job-name"] == "broken" then error("the site's own bug") end
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id)
  io.stderr:write("the site's post_submit\n")
  return slurm.SUCCESS
end
`
	siteJobSubmit = `
function slurm_job_submit(job, partitions, uid)
  if job.name == "refused" then
    slurm.log_user("the site refuses")
    return slurm.ERROR
  end
  if job.name == "moved" then job.partition = "gpu" end
  if job.name == "broken" then error("the site's own bug") end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  if job.comment == "refused" then return slurm.ERROR end
  return slurm.SUCCESS
end
`
)

// A site's own script loads ours with one line: the site's word comes first, then ours,
// and each can refuse.
func TestSiteScriptLoadsOurs(t *testing.T) {
	t.Parallel()
	for _, shim := range []string{"cli_filter", "job_submit"} {
		t.Run(shim, func(t *testing.T) {
			ours := filepath.Join(hookstest.ShortDir(t), "ours.lua")
			s := startSite(t, shim, func(cfg *slurmlab.Config) {
				for own, script := range map[string]*string{siteCLIFilter: &cfg.CLIFilterLua, siteJobSubmit: &cfg.JobSubmitLua} {
					if *script != "" {
						if err := os.WriteFile(ours, []byte(*script), 0o644); err != nil {
							t.Fatal(err)
						}
						*script = own + submit.LoadLine(ours) + "\nreturn slurm.SUCCESS\n" // as Slurm's own examples end
					}
				}
			})
			if out, _, err := s.submit(t, "--job-name=refused", "--partition=gpu", "--time=1-00:00:00"); err == nil || !strings.Contains(out, "the site refuses") || strings.Contains(out, "pcs-capacity") {
				t.Errorf("the site does not come first: %v: %s", err, out)
			}
			if out, _, err := s.submit(t, "--partition=gpu", "--time=1-00:00:00"); err == nil || !strings.Contains(out, "pcs-capacity: ") {
				t.Errorf("ours does not refuse: %v: %s", err, out)
			}
			if out, _, err := s.submit(t, "--job-name=moved", "--time=1-00:00:00"); err == nil || !strings.Contains(out, "pcs-capacity: ") {
				t.Errorf("ours does not see what the site changed: %v: %s", err, out)
			}
			out, id, err := s.submit(t, "--job-name=moved")
			if err != nil {
				t.Fatal(err)
			}
			if job := s.job(t, strings.Fields(id)[0]); job["Partition"] != "gpu" || job["TimeMin"] != "00:30:00" {
				t.Errorf("both edit: %v", job)
			}
			if shim == "cli_filter" && !strings.Contains(out, "the site's post_submit") {
				t.Errorf("the site's other functions are lost: %s", out)
			}
			if shim == "job_submit" {
				if out, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "update", "jobid="+id, "comment=refused"); err == nil {
					t.Errorf("the site's slurm_job_modify is lost: %s", out)
				}
			}
			// The site's bug has the effect that it would have without us.
			out, _, err = s.submit(t, "--job-name=broken", "--partition=gpu", "--time=1-00:00:00")
			if shim == "cli_filter" && (err != nil || !strings.Contains(out, "the site's own bug")) {
				t.Errorf("the site's bug: %v: %s", err, out)
			}

			// Without our file the site's script works on alone.
			if err := os.Remove(ours); err != nil {
				t.Fatal(err)
			}
			s.forget(t)
			if out, _, err := s.submit(t, "--job-name=refused"); err == nil || !strings.Contains(out, "the site refuses") {
				t.Errorf("%v: %s", err, out)
			}
			if out, _, err := s.submit(t, "--partition=gpu", "--time=1-00:00:00"); err != nil || strings.Contains(out, "pcs-capacity") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
