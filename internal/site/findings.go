// Package site is what a cluster has, and what is wrong with it: everything that would keep reserved capacity from
// being used, in the settings, in AWS, in Slurm and in the files between them. It changes nothing. One failure hides
// no other that can be seen without it. setup asks it about what it is about to make.
package site

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Fail keeps something from working; Warn may be intended, or could not be checked.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"` // stable, for scripts: credentials, permission, reservation, slurmctld, …
	Status Status `json:"status"`
	// Code is that of capacity.Codes, where the finding is a problem that others find as well.
	Code capacity.Code `json:"code,omitzero"`
	// What is a sentence, Fix its remedy; "" if there is none.
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// Findings are the outcomes of several checks.
type Findings []Finding

func (f *Findings) ok(check, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: OK, What: fmt.Sprintf(what, args...)})
}

func (f *Findings) warn(check, fix, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: Warn, What: fmt.Sprintf(what, args...), Fix: fix})
}

func (f *Findings) fail(check, fix, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: Fail, What: fmt.Sprintf(what, args...), Fix: fix})
}

// problem adds a problem, with its code, as the finding of a check.
func (f *Findings) problem(check string, status Status, p capacity.Problem) {
	*f = append(*f, Finding{Check: check, Status: status, Code: p.Code, What: p.Sentence, Fix: p.Fix})
}

// lacks adds the failure of something that setup needs of this host; its code names the check.
func (f *Findings) lacks(code capacity.Code, fix, what string, args ...any) {
	f.problem(string(code), Fail, capacity.Problemf(code, capacity.Subject{}, fix, what, args...))
}

// failWords is FromWords as the next finding.
func (f *Findings) failWords(check, words, fix string) {
	*f = append(*f, FromWords(check, words, fix))
}

// FromWords is a failure in words that end with their remedy, "what; fix". fix is the remedy for words without one.
func FromWords(check, words, fix string) Finding {
	if at := strings.LastIndex(words, "; "); at >= 0 {
		words, fix = words[:at], words[at+2:]
	}
	return Finding{Check: check, Status: Fail, What: words, Fix: fix}
}

// Failed reports whether a check failed.
func (f Findings) Failed() bool {
	for _, one := range f {
		if one.Status == Fail {
			return true
		}
	}
	return false
}

// Sources are the things that the checks look at.
type Sources struct {
	Config *config.Config
	// EC2 is nil if there is no client, for EC2Err.
	EC2    *ec2.Client
	EC2Err error
	PCS    *pcs.Client
	Slurm  *slurm.Client
	Hooks  []Hook // those of this host
	Filter string // the path of pcs-capacity-filter; "" if it is not known
	Root   string // the host's file system; "" stands for /
	Watch  string // the shell command that keeps `sync --watch` running on this host
}

// Run makes all checks, in the order in which a person would fix their findings.
func (s Sources) Run(ctx context.Context) Findings {
	r := run{Sources: s, settings: s.Config.Domain()}
	r.ok("settings", "%s: %s", s.Config.Path, count(len(s.Config.Partitions), "partition"))
	if len(s.Config.Partitions) == 0 {
		r.warn("settings", "run `pcs-capacity setup`, or add a [[partition]]", "the settings have no partition")
	}
	if !r.onPCS() {
		r.askSlurm(ctx)
	}
	r.aws(ctx)
	if r.onPCS() {
		r.askSlurm(ctx)
	}
	r.slurm(ctx)
	r.hooks()
	r.state()
	return r.Findings
}

// run is the state of one run.
type run struct {
	Sources
	Findings
	// Site is what AWS says; clusterErr is why a part of the PCS cluster is not known.
	Site
	clusterErr error
	settings   capacity.Settings
	offset     time.Duration // AWS's time minus the machine's; 0 if AWS did not answer
	account    string        // that of the credentials of this command; "" if it is not known
	// denied are actions that are not allowed; missing: those, or some of which that is not known.
	denied   []string
	missing  bool
	launched []*Launch // what the nodes of each group are launched with
	// snap has the reservations of the settings, subnets those that EC2 describes; nil until they are read.
	snap    capacity.Snapshot
	subnets []capacity.Subnet
	// slurmConfig is that of slurmctld; nil if it does not answer, for slurmErr.
	slurmConfig *slurm.Config
	slurmErr    error
	partitions  []capacity.SlurmPartition
	nodes       []capacity.Node
}

// onPCS and onEC2 report whether any partition is launched so.
func (r *run) onPCS() bool { return r.Config.Cluster != "" }

func (r *run) onEC2() bool {
	for _, p := range r.settings.Partitions {
		if p.Provider.Launches() {
			return true
		}
	}
	return false
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
