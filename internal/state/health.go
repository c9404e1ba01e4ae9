package state

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Health has the results of the site's own health command on the nodes of a slot since its block
// opened.
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
	HealthBad      = "bad"     // it failed each time and stays drained
	HealthUnknown  = "unknown" // the command gave no answer; jobs get it anyway
)

// NodeHealth is the health of one node. Times are AWS's.
type NodeHealth struct {
	State string `json:"state"`
	// Since is when this state, or this try, began.
	Since time.Time `json:"since"`
	// Job is the Slurm job that runs the command; "" if none does yet.
	Job string `json:"job,omitempty"`
	// Why is the reason for HealthUnknown.
	Why string `json:"why,omitempty"`
	// Failures are the command's findings, oldest first.
	Failures []HealthFailure `json:"failures,omitempty"`
}

// HealthFailure is one finding of the command. Unknown values are left out.
type HealthFailure struct {
	InstanceID   string    `json:"instance_id,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	PrivateIP    string    `json:"private_ip,omitempty"`
	Launched     time.Time `json:"launched,omitzero"`
	InstanceType string    `json:"instance_type,omitempty"`
	Command      string    `json:"command"`
	// ExitStatus is the command's; 124 stands for one that did not end within its timeout.
	ExitStatus int `json:"exit_status"`
	// Output is the end of the command's output, at most HealthOutput bytes.
	Output string    `json:"output,omitempty"`
	Began  time.Time `json:"began,omitzero"`
	Ended  time.Time `json:"ended,omitzero"`
}

// HealthCase has everything that AWS Support needs about a node that failed.
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

const (
	healthFolder  = "health"
	keepingHealth = "keeping the health of nodes"
)

func (d Dir) health(slot string) file[*Health] {
	f := file[*Health]{dir: d, name: filepath.Join(healthFolder, slot+".json"), public: true, indent: true, keeping: keepingHealth, mend: "; remove it"}
	f.reading = "reading the health of nodes, " + f.path()
	return f
}

func healthOutputFile(node string) string { return filepath.Join(healthFolder, node+".out") }

func (d Dir) healthCase(node, reservation string) file[HealthCase] {
	name := filepath.Join(healthFolder, "cases", node+"-"+reservation+".json")
	return file[HealthCase]{dir: d, name: name, public: true, indent: true, keeping: keepingHealth}
}

// HealthOutputPath is the file in which the command's job on a node leaves the end of its output.
func (d Dir) HealthOutputPath(node string) string { return d.path(healthOutputFile(node)) }

// HealthCasePath is the file of a node that failed in a reservation.
func (d Dir) HealthCasePath(node, reservation string) string {
	return d.healthCase(node, reservation).path()
}

// Health reads the health of a slot's nodes; nil if nothing is known.
func (d Dir) Health(slot string) (*Health, error) {
	h, err := d.health(slot).read()
	if h == nil {
		return nil, err
	}
	for name, n := range h.Nodes {
		if n == nil {
			delete(h.Nodes, name)
		}
	}
	return h, nil
}

// KeepHealth writes the health of a slot's nodes, for the next pass.
func (d Dir) KeepHealth(h *Health) error { return d.health(h.Slot).write(h) }

// KeepHealthCase writes the file of a node that failed.
func (d Dir) KeepHealthCase(c HealthCase) error {
	return d.healthCase(c.Node, c.ReservationID).write(c)
}

// HealthSaid is the output that the command's job left on a node; "" if the node could not write it
// because state_dir is missing there.
func (d Dir) HealthSaid(node string) string {
	text, err := d.ReadPublic(healthOutputFile(node))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text[max(0, len(text)-HealthOutput):]), "\uFFFD")
}

// ForgetHealthSaid makes room for the output of the next job on a node.
func (d Dir) ForgetHealthSaid(node string) error {
	if err := errors.Join(d.makePublic(healthFolder), d.removePublic(healthOutputFile(node))); err != nil {
		return fmt.Errorf("%s: %w", keepingHealth, err)
	}
	return nil
}
