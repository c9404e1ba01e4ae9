package slurm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
)

// Resume is what slurmctld tells ResumeProgram in SLURM_RESUME_FILE. The file can be read only while that program runs.
type Resume struct {
	Jobs  []ResumeJob
	Nodes string // hostlist of all nodes to power up, also those without a job
}

// ResumeJob is a job that waits for at least one of the nodes. The file never
// carries the job's comment or account: ask squeue for those.
type ResumeJob struct {
	ID          int
	ResumeNodes string // hostlist: the nodes to power up for the job
	AllocNodes  string // hostlist: all the job's nodes; up to 22.05 the same as ResumeNodes
	Partition   string // empty up to 22.05
	Features    string // empty up to 22.05
	Reservation string // the job's Slurm reservation; empty up to 22.05
}

// ReadResumeFile reads the file that SLURM_RESUME_FILE names.
func ReadResumeFile(path string) (Resume, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Resume{}, fmt.Errorf("reading SLURM_RESUME_FILE: %w", err)
	}
	resume, err := ParseResumeFile(data)
	if err != nil {
		return Resume{}, fmt.Errorf("reading SLURM_RESUME_FILE %s: %w", path, err)
	}
	return resume, nil
}

// ParseResumeFile reads the text of a SLURM_RESUME_FILE of any version. Keys that it does not know are ignored; a
// hostlist that cannot be expanded is an error, so that no caller finds out halfway.
func ParseResumeFile(data []byte) (Resume, error) {
	var file resumeFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Resume{}, fmt.Errorf("not the JSON that slurmctld writes: %w", err)
	}
	resume := Resume{Nodes: cmp.Or(file.AllNodesResume, file.AllNodes)}
	for _, job := range file.Jobs {
		resumed := cmp.Or(job.NodesResume, job.Nodes)
		resume.Jobs = append(resume.Jobs,
			ResumeJob{ID: job.ID, ResumeNodes: resumed, AllocNodes: cmp.Or(job.NodesAlloc, resumed),
				Partition: job.Partition, Features: job.Features, Reservation: job.Reservation})
	}
	return resume, resume.check()
}

func (r Resume) check() error {
	if _, err := Expand(r.Nodes); err != nil {
		return err
	}
	for _, job := range r.Jobs {
		if job.ID <= 0 {
			return fmt.Errorf("job id %d is not positive", job.ID)
		}
		for _, nodes := range []string{job.ResumeNodes, job.AllocNodes} {
			if _, err := Expand(nodes); err != nil {
				return fmt.Errorf("job %d: %w", job.ID, err)
			}
		}
	}
	return nil
}

// resumeFile has the keys of every version: 22.05 wrote nodes and all_nodes,
// later ones nodes_resume and all_nodes_resume (seen in 24.11 and 26.05).
type resumeFile struct {
	Jobs []struct {
		ID          int    `json:"job_id"`
		Nodes       string `json:"nodes"`
		NodesResume string `json:"nodes_resume"`
		NodesAlloc  string `json:"nodes_alloc"`
		Partition   string `json:"partition"`
		Features    string `json:"features"`
		Reservation string `json:"reservation"`
	} `json:"jobs"`
	AllNodes       string `json:"all_nodes"`
	AllNodesResume string `json:"all_nodes_resume"`
}
