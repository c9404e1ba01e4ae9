package slurm

import (
	"fmt"
	"regexp"
	"sync"
)

// jobName is a job under the name by which scontrol changes it and nothing else. The id
// alone is not such a name: that of an array's last task is the whole array's, and that
// of a het job's first component the whole het job's.
type jobName struct {
	// base is the id before the task or the component.
	base string
	// argument is what scontrol takes.
	argument string
	// rows are what squeue --array shows of it: one job, or each task.
	rows []string
}

var (
	oneJob = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^([1-9][0-9]{0,9})(?:[_+][0-9]{1,9})?$`) },
	)
	someTasks = sync.OnceValue(
		func() *regexp.Regexp { return regexp.MustCompile(`^([1-9][0-9]{0,9})_(\[[0-9,-]+)(?:%[0-9]+)?\]$`) },
	)
)

// parseJobName reads a job's name as squeue shows it: "12", "12_3", "12+1", or the tasks
// of an array that are still pending together, "12_[1-4,7%2]".
func parseJobName(shown string) (jobName, error) {
	if parts := oneJob().FindStringSubmatch(shown); parts != nil {
		return jobName{base: parts[1], argument: shown, rows: []string{shown}}, nil
	}
	if parts := someTasks().FindStringSubmatch(shown); parts != nil {
		// Without what follows the "%": that is how many may run at a time, which
		// scontrol does not take here.
		argument := parts[1] + "_" + parts[2] + "]"
		rows, err := Expand(argument)
		if err != nil {
			return jobName{}, fmt.Errorf("job %s: %w", quote(shown), err)
		}
		return jobName{base: parts[1], argument: argument, rows: rows}, nil
	}
	return jobName{}, fmt.Errorf("job %s: write it as squeue shows it: 12, 12_3, 12+1 or 12_[1-4]", quote(shown))
}
