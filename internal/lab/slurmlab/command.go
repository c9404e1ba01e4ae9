package slurmlab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Command runs one of Slurm's commands, or anything else, against this cluster and returns what it printed, standard
// error included. Give ctx a deadline: a command whose slurmctld is gone takes 10 s or more to say so.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) (string, error) {
	path, err := findProgram(name) // the commands are beside the daemons
	if err != nil {
		return "", err
	}

	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = c.Env()
	cmd.Dir = filepath.Join(c.dir, "jobs")
	cmd.WaitDelay = time.Second

	out, err := cmd.CombinedOutput()
	text := strings.TrimRight(string(out), "\n")
	if err != nil {
		return text, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}

	return text, nil
}

// Submit submits a batch job that runs a shell command and returns its id.
// The output goes to jobs/ID.out below the cluster's folder.
func (c *Cluster) Submit(ctx context.Context, shell string, args ...string) (string, error) {
	args = append([]string{"--parsable", "--output", filepath.Join(c.dir, "jobs", "%j.out"), "--wrap", shell}, args...)

	out, err := c.Command(ctx, "sbatch", args...)
	if err != nil {
		return "", err
	}

	lines := strings.Split(out, "\n") // messages of plugins come before the id

	return lines[len(lines)-1], nil
}

// Job returns the fields of "scontrol show job", such as JobState, Reason and
// NodeList. A job is forgotten MinJobAge (300 s) after its end.
func (c *Cluster) Job(ctx context.Context, id string) (map[string]string, error) {
	out, err := c.Command(ctx, "scontrol", "-o", "show", "job", id)
	return fields(out), err
}

// Node returns the fields of "scontrol show node". sinfo can show a stale State for minutes on 22.05; this does not.
func (c *Cluster) Node(ctx context.Context, name string) (map[string]string, error) {
	out, err := c.Command(ctx, "scontrol", "-o", "show", "node", name)
	return fields(out), err
}

// fields splits a line of scontrol -o. A value that holds spaces (a Reason, a
// Comment) is cut at the first one: the lab reads no user's text with it.
func fields(line string) map[string]string {
	out := map[string]string{}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if _, seen := out[key]; !seen {
				out[key] = value
			}
		}
	}

	return out
}

// NodeStates returns the State of every node.
func (c *Cluster) NodeStates(ctx context.Context) (map[string]string, error) {
	out, err := c.Command(ctx, "scontrol", "-o", "show", "node")
	if err != nil {
		return nil, err
	}

	states := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		node := fields(line)
		states[node["NodeName"]] = node["State"]
	}

	return states, nil
}

// finished are the job states that a job does not leave.
var finished = []string{
	"COMPLETED",
	"FAILED",
	"CANCELLED",
	"TIMEOUT",
	"NODE_FAIL",
	"OUT_OF_MEMORY",
	"DEADLINE",
	"BOOT_FAIL",
}

// WaitJob waits until a job is in one of the states, such as "RUNNING" or "COMPLETED", and returns its fields. It fails
// when ctx ends and when the job has ended in another state.
func (c *Cluster) WaitJob(ctx context.Context, id string, states ...string) (map[string]string, error) {
	var last map[string]string

	err := WaitUntil(ctx, func() bool {
		if job, err := c.Job(ctx, id); err == nil {
			last = job
		}
		return slices.Contains(states, last["JobState"]) || slices.Contains(finished, last["JobState"])
	})
	if err == nil && slices.Contains(states, last["JobState"]) {
		return last, nil
	}

	return last, errors.Join(
		fmt.Errorf("job %s is %s (%s), not %s", id, last["JobState"], last["Reason"], strings.Join(states, " or ")),
		err,
	)
}

// WaitNode waits until a node's State satisfies the condition and returns it.
func (c *Cluster) WaitNode(ctx context.Context, name string, condition func(state string) bool) (string, error) {
	var last string

	err := WaitUntil(ctx, func() bool {
		node, err := c.Node(ctx, name)
		if err == nil {
			last = node["State"]
		}

		return err == nil && condition(last)
	})
	if err != nil {
		return last, fmt.Errorf("node %s is %s: %w", name, last, err)
	}

	return last, nil
}

// WaitUntil looks until ok, and returns the error of ctx if that ends first. Most looks start a program of Slurm's,
// which costs a core some 50 ms. So the pause between two is eight times as long as a look took, from 50 ms to 3 s: one
// test that waits takes a ninth of a core at most, and the less the busier the machine is.
func WaitUntil(ctx context.Context, ok func() bool) error {
	for {
		began := time.Now()

		if ok() {
			return nil
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(max(8*time.Since(began), 50*time.Millisecond), 3*time.Second)):
		}
	}
}
