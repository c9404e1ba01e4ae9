package slurm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// ReadResumeFile reads the file that SLURM_RESUME_FILE names, which can be read only while ResumeProgram runs. A job
// that cannot be read is left out, and the error is about it.
func ReadResumeFile(path string) ([]capacity.ResumeJob, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading SLURM_RESUME_FILE: %w", err)
	}

	jobs, err := parseResumeFile(data)
	if err != nil {
		err = fmt.Errorf("reading SLURM_RESUME_FILE %s: %w", path, err)
	}

	return jobs, err
}

// parseResumeFile ignores keys that it does not know. 22.05 writes nodes, later versions nodes_resume.
func parseResumeFile(data []byte) (jobs []capacity.ResumeJob, err error) {
	var file struct {
		Jobs []struct {
			ID          int    `json:"job_id"`
			Nodes       string `json:"nodes"`
			NodesResume string `json:"nodes_resume"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("not the JSON that slurmctld writes: %w", err)
	}

	for _, job := range file.Jobs {
		nodes, bad := hostlist.Expand(cmp.Or(job.NodesResume, job.Nodes))
		if bad != nil || job.ID <= 0 {
			err = cmp.Or(err, fmt.Errorf("job %d: %w", job.ID, cmp.Or(bad, fmt.Errorf("its id is not positive"))))
			continue
		}

		jobs = append(jobs, capacity.ResumeJob{ID: job.ID, Nodes: nodes})
	}

	return jobs, err
}
