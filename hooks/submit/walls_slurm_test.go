package submit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A job without --time gets a limit that its account or QOS allows: with the whole window
// of a block it would wait for ever, for a limit that nobody asked for.
func TestFilterKeepsToTheLimitsOfAccounting(t *testing.T) {
	t.Parallel()
	for _, shim := range []string{"cli_filter", "job_submit"} {
		t.Run(shim, func(t *testing.T) {
			s := startPaid(t, shim, "")
			for _, line := range []string{"modify account nlp set maxwall=45", "add qos tiny set maxwall=20", "modify account nlp set qos=normal,tiny"} {
				if out, err := s.cluster.Command(hookstest.Deadline(t), "sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...); err != nil {
					t.Fatal(err, out)
				}
			}
			snap, err := s.state.ReadSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			if snap.Walls, err = (&slurm.Client{Conf: s.cluster.Conf()}).Walls(hookstest.Deadline(t), "lab"); err != nil {
				t.Fatal(err)
			}
			snap.TakenAt = time.Now()
			if err := s.state.WriteSnapshot(snap); err != nil {
				t.Fatal(err)
			}
			s.forget(t)
			for _, c := range []struct {
				args    []string
				minutes int
			}{
				{[]string{"daemon"}, 45}, // its default account is nlp
				{[]string{"games", "--account=nlp"}, 45},
				{[]string{"games", "--account=nlp", "--qos=tiny"}, 20},
			} {
				out, err := s.as(t, c.args[0], "env", append([]string{"USER=" + c.args[0], "sbatch", "--output=/dev/null", "--wrap=true", "--partition=big"}, c.args[1:]...)...)
				if err != nil {
					t.Errorf("%q: %v: %s", c.args, err, out)
					continue
				}
				_, id, _ := strings.Cut(out, "Submitted batch job ")
				job := s.job(t, id)
				if got := job["TimeLimit"]; got != capacity.FormatMinutes(c.minutes) {
					t.Errorf("%q: TimeLimit=%s, want %d minutes", c.args, got, c.minutes)
				}
				if job, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "COMPLETED"); err != nil {
					t.Errorf("%q: %v: %v", c.args, err, job)
				}
			}
		})
	}
}
