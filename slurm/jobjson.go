package slurm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// parseJobs reads the output of "squeue --json". Slurm escapes control bytes
// but copies other bytes as they are, so the text may not be valid UTF-8;
// encoding/json then reads U+FFFD, which is what we want.
func parseJobs(output []byte) ([]Job, error) {
	var answer struct {
		Jobs   *[]jobRecord `json:"jobs"`
		Errors []struct {
			Error       string `json:"error"`
			Description string `json:"description"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(output, &answer); err != nil {
		return nil, fmt.Errorf("the answer of squeue --json: %w", err)
	}
	if len(answer.Errors) > 0 {
		return nil, fmt.Errorf("squeue --json reports: %s %s", answer.Errors[0].Error, answer.Errors[0].Description)
	}
	if answer.Jobs == nil {
		return nil, errors.New(`the answer of squeue --json has no "jobs"`)
	}
	jobs := make([]Job, 0, len(*answer.Jobs))
	for i := range *answer.Jobs {
		jobs = append(jobs, (*answer.Jobs)[i].job())
	}
	return jobs, nil
}

// jobRecord has the keys that are the same from openapi/v0.0.38 (22.05) to
// data_parser/v0.0.45 (26.05). Their types differ: see number and words.
type jobRecord struct {
	ID           number `json:"job_id"`
	ArrayJobID   number `json:"array_job_id"`
	ArrayTaskID  number `json:"array_task_id"`
	ArrayTasks   string `json:"array_task_string"`
	HetJobID     number `json:"het_job_id"`
	HetOffset    number `json:"het_job_offset"`
	Partition    string `json:"partition"`
	Account      string `json:"account"`
	QOS          string `json:"qos"`
	UserID       number `json:"user_id"`
	User         string `json:"user_name"`
	Name         string `json:"name"`
	Comment      string `json:"comment"`
	AdminComment string `json:"admin_comment"`
	State        words  `json:"job_state"`
	Reason       string `json:"state_reason"`
	TimeLimit    number `json:"time_limit"`
	TimeMin      number `json:"time_minimum"`
	Submit       number `json:"submit_time"`
	Eligible     number `json:"eligible_time"`
	Start        number `json:"start_time"`
	End          number `json:"end_time"`
	Deadline     number `json:"deadline"`
	Restarts     number `json:"restart_cnt"`
	Priority     number `json:"priority"`
	Requeue      bool   `json:"requeue"`
	Batch        bool   `json:"batch_flag"`
	Nodes        string `json:"nodes"`
	NumNodes     number `json:"node_count"`
	Features     string `json:"features"`
	Reservation  string `json:"resv_name"`
}

func (r *jobRecord) job() Job {
	job := Job{
		ID:           int(r.ID.value),
		ArrayJobID:   int(r.ArrayJobID.value),
		ArrayTaskID:  -1,
		ArrayTasks:   r.ArrayTasks,
		HetJobID:     int(r.HetJobID.value),
		HetOffset:    int(r.HetOffset.value),
		Partition:    r.Partition,
		Account:      r.Account,
		QOS:          r.QOS,
		UserID:       int(r.UserID.value),
		User:         r.User,
		Name:         r.Name,
		Comment:      r.Comment,
		AdminComment: r.AdminComment,
		Reason:       r.Reason,
		TimeLimit:    r.TimeLimit.limit(true),
		TimeMin:      r.TimeMin.limit(false),
		Submit:       r.Submit.time(),
		Eligible:     r.Eligible.time(),
		Start:        r.Start.time(),
		End:          r.End.time(),
		Deadline:     r.Deadline.time(),
		Restarts:     int(r.Restarts.value),
		Held:         r.Priority.set && r.Priority.value == 0,
		Requeue:      r.Requeue,
		Batch:        r.Batch,
		Nodes:        r.Nodes,
		NumNodes:     int(r.NumNodes.value),
		Features:     r.Features,
		Reservation:  r.Reservation,
	}
	if r.ArrayTaskID.set && job.ArrayJobID != 0 {
		job.ArrayTaskID = int(r.ArrayTaskID.value)
	}
	job.State, job.StateFlags = splitState(r.State)
	return job
}

// number is a JSON number of any version: 22.05 writes plain numbers and null,
// newer ones {"set":true,"infinite":false,"number":10}.
type number struct {
	set, infinite, null bool
	value               int64
}

func (n *number) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		n.null = true
		return nil
	}
	if text[0] == '{' {
		var object struct {
			Set      bool    `json:"set"`
			Infinite bool    `json:"infinite"`
			Number   float64 `json:"number"`
		}
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		n.set, n.infinite, n.value = object.Set, object.Infinite, wholeNumber(object.Number)
		return nil
	}
	var plain float64
	if err := json.Unmarshal(text, &plain); err != nil {
		return err
	}
	n.set, n.value = true, wholeNumber(plain)
	return nil
}

// wholeNumber drops what cannot be an id, a count or a time.
func wholeNumber(f float64) int64 {
	if math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}

// limit reads a number of minutes. 22.05 writes null for "no limit"; a minimum
// of zero is one that was not stated.
func (n number) limit(nullIsInfinite bool) capacity.Limit {
	if n.infinite || n.null && nullIsInfinite {
		return capacity.NoLimit
	}
	if !n.set || n.value == 0 && !nullIsInfinite {
		return capacity.Limit{}
	}
	limit, err := limitOfMinutes(n.value)
	if err != nil { // more minutes than Slurm can count: as good as none
		return capacity.NoLimit
	}
	return limit
}

// time reads seconds since 1970; 0 and unset are the zero time.
func (n number) time() time.Time {
	if !n.set || n.value <= 0 || n.value >= noVal {
		return time.Time{}
	}
	return time.Unix(n.value, 0).UTC()
}

// words is a JSON string, or in newer versions an array of them.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*w = words{one}
	return nil
}

// impliedState gives the state of a job of which 22.05 shows only a flag.
// COMPLETING is not here: how the job ended is not known then.
var impliedState = map[string]string{
	"CONFIGURING": "RUNNING", "RESIZING": "RUNNING", "SIGNALING": "RUNNING", "STAGE_OUT": "RUNNING", "STOPPED": "RUNNING",
	"REQUEUED": "PENDING", "REQUEUE_FED": "PENDING", "REQUEUE_HOLD": "PENDING", "RESV_DEL_HOLD": "PENDING", "SPECIAL_EXIT": "PENDING",
}

var baseStates = []string{
	"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
	"PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
}

// splitState tells a job's state from its flags.
func splitState(state []string) (base string, flags []string) {
	for _, word := range state {
		if base == "" && slices.Contains(baseStates, word) {
			base = word
		} else {
			flags = append(flags, word)
		}
	}
	if base == "" && len(flags) > 0 {
		base = firstOf(impliedState[flags[0]], flags[0])
	}
	return base, flags
}
