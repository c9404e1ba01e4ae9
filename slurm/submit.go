package slurm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// SubmitBatch submits a job and returns its name. It is never requeued, prints to nowhere, and gets nothing of this
// process's environment but PATH, where its nodes find Slurm's commands if they lie in the same folder as here.
func (c *Client) SubmitBatch(ctx context.Context, b capacity.Batch) (job string, err error) {
	list, err := nodeArgument(b.Nodes)
	if err != nil {
		return "", fmt.Errorf("submitting a job: %w", err)
	}

	sbatch, err := c.findProgram(ctx, "sbatch")
	if err != nil {
		return "", fmt.Errorf("submitting a job: %w", err)
	}

	file, err := os.CreateTemp("", "pcs-capacity-job-")
	if err != nil {
		return "", fmt.Errorf("submitting a job: %w", err)
	}
	defer os.Remove(file.Name())

	_, err = file.WriteString(b.Script)
	if closed := file.Close(); err == nil {
		err = closed
	}

	if err != nil {
		return "", fmt.Errorf("submitting a job: %w", err)
	}

	path := filepath.Dir(sbatch) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	args := []string{
		"--parsable",
		"--job-name=" + b.Name,
		"--partition=" + b.Partition,
		"--reservation=" + b.Reservation,
		"--nodelist=" + list,
		"--nodes=" + strconv.Itoa(len(b.Nodes)),
		"--time=" + strconv.Itoa(b.Minutes),
		"--exclusive",
		"--mem=0",
		"--no-requeue",
		"--chdir=/",
		"--input=/dev/null",
		"--output=/dev/null",
		"--export=PATH=" + path,
	}
	if b.Account != "" {
		args = append(args, "--account="+b.Account)
	}

	var out bytes.Buffer

	err = c.start(ctx, &out, nil, sbatch, append(args, file.Name())...)
	if err != nil {
		return "", fmt.Errorf("submitting a job for %s: %w", list, err)
	}

	job, _, _ = strings.Cut(strings.TrimSpace(out.String()), ";") // a cluster follows in a federation
	if _, err := parseJobName(job); err != nil {
		return "", fmt.Errorf("submitting a job for %s: sbatch answers %.80q", list, out.String())
	}

	return job, nil
}
