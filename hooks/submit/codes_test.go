package submit

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// job_submit.lua refuses a job with the constant of Slurm's that capacity.Codes has for the code.
func TestErrorsOfRefusals(t *testing.T) {
	want := map[string]string{}
	for _, m := range capacity.Codes {
		if m.Slurm != "" && m.Slurm != "ERROR" {
			want[string(m.Code)] = m.Slurm
		}
	}
	got := map[string]string{}
	for _, row := range regexp.MustCompile(`\["([a-z-]+)"\] = slurm\.(ESLURM_\w+),`).FindAllStringSubmatch(jobSubmitLua, -1) {
		got[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capacity.Codes (-), job_submit.lua (+):\n%s", diff)
	}
}
