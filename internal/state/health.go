package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Health is what is known of the nodes of a slot since its block opened, by the site's own
// health command.
type Health struct {
	Slot          string                 `json:"slot"`
	ReservationID string                 `json:"reservation_id"`
	Nodes         map[string]*NodeHealth `json:"nodes"`
}

// The states of NodeHealth. While it is one of the first three, no job gets the node.
const (
	HealthOpen     = "open"     // it boots, or the command runs
	HealthFailed   = "failed"   // it waits for its turn to be launched anew
	HealthPowering = "powering" // it is powered down for that
	HealthGood     = "good"
	HealthBad      = "bad"     // it failed each time, and stays drained
	HealthUnknown  = "unknown" // the command did not tell; jobs get it all the same
)

// NodeHealth is what is known of one node. Times are AWS's.
type NodeHealth struct {
	State string `json:"state"`
	// Since is when this state, or this try, began.
	Since time.Time `json:"since"`
	// Job is the Slurm job that runs the command; "" if none does yet.
	Job string `json:"job,omitempty"`
	// Why nothing is known, for HealthUnknown.
	Why string `json:"why,omitempty"`
	// Failures are what the command found, the first one first.
	Failures []HealthFailure `json:"failures,omitempty"`
}

// HealthFailure is what the command found once. What was not known is left out.
type HealthFailure struct {
	InstanceID   string    `json:"instance_id,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	PrivateIP    string    `json:"private_ip,omitempty"`
	Launched     time.Time `json:"launched,omitzero"`
	InstanceType string    `json:"instance_type,omitempty"`
	Command      string    `json:"command"`
	// ExitStatus is the command's; 124 stands for one that did not end within its timeout.
	ExitStatus int `json:"exit_status"`
	// Output is the end of what the command wrote, at most HealthOutput bytes.
	Output string    `json:"output,omitempty"`
	Began  time.Time `json:"began,omitzero"`
	Ended  time.Time `json:"ended,omitzero"`
}

// HealthCase is all that there is to say to AWS Support of a node that failed.
type HealthCase struct {
	Node          string          `json:"node"`
	Slot          string          `json:"slot"`
	Partition     string          `json:"partition"`
	Region        string          `json:"region,omitempty"`
	ReservationID string          `json:"reservation_id"`
	Failures      []HealthFailure `json:"failures"`
}

// HealthOutput is how much of a command's output is kept, in bytes.
const HealthOutput = 4096

const healthFolder = "health"

func healthFile(slot string) string { return filepath.Join(healthFolder, slot+".json") }

func healthOutputFile(node string) string { return filepath.Join(healthFolder, node+".out") }

func healthCaseFile(node, reservation string) string {
	return filepath.Join(healthFolder, "cases", node+"-"+reservation+".json")
}

// HealthOutputPath is where the command's job on a node leaves the end of its output.
func (d Dir) HealthOutputPath(node string) string { return d.path(healthOutputFile(node)) }

// HealthCasePath is the file of a node that failed in a reservation.
func (d Dir) HealthCasePath(node, reservation string) string {
	return d.path(healthCaseFile(node, reservation))
}

// Health is what is known of a slot's nodes, nil if nothing is.
func (d Dir) Health(slot string) (*Health, error) {
	text, err := d.ReadPublic(healthFile(slot))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	h := &Health{}
	if err == nil {
		err = json.Unmarshal(text, h)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the health of nodes, %s: %w; remove it", d.path(healthFile(slot)), err)
	}
	for name, n := range h.Nodes {
		if n == nil {
			delete(h.Nodes, name)
		}
	}
	return h, nil
}

// KeepHealth writes what is known of a slot's nodes, for the next pass.
func (d Dir) KeepHealth(h *Health) error {
	return d.writeHealth(healthFile(h.Slot), h)
}

// KeepHealthCase writes the file of a node that failed.
func (d Dir) KeepHealthCase(c HealthCase) error {
	return d.writeHealth(healthCaseFile(c.Node, c.ReservationID), c)
}

func (d Dir) writeHealth(name string, what any) error {
	text, err := json.MarshalIndent(what, "", "  ")
	if err == nil {
		err = d.WritePublic(name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping the health of nodes: %w", err)
	}
	return nil
}

// HealthSaid is what the command's job on a node left; "" if the node could not write it,
// because state_dir is not there.
func (d Dir) HealthSaid(node string) string {
	text, err := d.ReadPublic(healthOutputFile(node))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text[max(0, len(text)-HealthOutput):]), "\uFFFD")
}

// ForgetHealthSaid makes room for what the next job on a node leaves.
func (d Dir) ForgetHealthSaid(node string) error {
	if err := errors.Join(d.makePublic(healthFolder), d.removePublic(healthOutputFile(node))); err != nil {
		return fmt.Errorf("keeping the health of nodes: %w", err)
	}
	return nil
}
