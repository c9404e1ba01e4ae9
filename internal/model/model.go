// Package model is a cluster in memory: slurmctld, EC2 and PCS, as far as blocks and jobs meet in them, behind the calls that
// the product makes. It has their refusals and their unkind parts: boot time pushes the end of a job past a reservation,
// an old Slurm cuts jobs with --time-min to their floor, an active reservation cannot be moved, EC2 shows late what it
// did, answers get lost. Its clock is set; time passes only then. It is for tests that take milliseconds.
package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Mark is the mark of the modeled cluster.
const Mark = "lab/0123456789abcdef"

// World is a cluster, and the region of AWS that it runs in.
type World struct {
	Slurm *Slurm
	EC2   *EC2
	PCS   *PCS
	Skew  time.Duration // Slurm's clock minus AWS's
	// Before is called before each call has its effect: with its error there is none. After is called after it: its
	// error is the answer, so that the caller does not know. Who is called may panic, which kills the caller, in the
	// middle of changes: reads may come from several goroutines at once.
	Before, After func(Call) error

	mu sync.Mutex
}

// Dir is a temporary folder in memory, where there is one: state_dir is made sure of on the disk at each change.
func Dir(t interface {
	TempDir() string
	Cleanup(func())
}) string {
	dir, err := os.MkdirTemp("/dev/shm", "model")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Call is a call that the product makes.
type Call struct {
	Verb   string // "set time limit"
	Text   string // "of job 7 to 01:00:00"
	Change bool   // it is no read
	EC2    bool   // it is no call of Slurm
}

// New is an empty world at a time of Slurm's clock.
func New(now time.Time) *World {
	w := &World{}
	w.Slurm = &Slurm{World: w, Now: now, Boot: 5 * time.Minute, RequeueDelay: 2 * time.Minute, KillWait: 30 * time.Second, Fences: map[string]Reservation{}}
	w.EC2 = &EC2{World: w, Extended: map[string][]capacity.Extension{}, Templates: map[string]capacity.LaunchTemplate{}, before: map[string]change{},
		tokens: map[string]*order{}}
	w.PCS = &PCS{World: w}
	return w
}

// Now is the time by AWS's clock.
func (w *World) Now() time.Time { return w.Slurm.Now.Add(-w.Skew) }

// GoTo lets time pass up to a moment of AWS's clock: jobs end, nodes boot, reservations begin and end, jobs start.
func (w *World) GoTo(to time.Time) {
	s := w.Slurm
	for to = to.Add(w.Skew); ; {
		s.happen()
		s.runPrograms()
		if !s.Now.Before(to) {
			return
		}
		s.Now = s.next(to)
	}
}

// MarkIn writes the id of the cluster into slurmctld's folder.
func (w *World) MarkIn(dir string) error {
	w.Slurm.StateSave = dir
	if err := os.WriteFile(filepath.Join(dir, "clustername"), []byte("lab\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pcs-capacity-id"), []byte(Mark[len("lab/"):]+"\n"), 0o644)
}

// Do has a call have its effect.
func (w *World) Do(c Call, do func() error) error {
	if w.Before != nil {
		if err := w.Before(c); err != nil {
			return err
		}
	}
	err := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return do()
	}()
	if w.After != nil {
		if lost := w.After(c); lost != nil {
			return lost
		}
	}
	return err
}

// EC2 is the region's.
type EC2 struct {
	*World
	All       []capacity.Reservation // the reservations that there are. A State of "" goes by the time.
	Instances []capacity.Instance    // those that have not been terminated
	Hosts     map[string]string      // EC2's words about hosts that it is about to take away, by instance
	OpensLate time.Duration          // how long after its start EC2 opens a block
	Hidden    []string               // reservations that EC2 leaves out of its answers
	Late      bool                   // what has changed in the last minutes is shown as it was
	// ForSale are the blocks that EC2 sells, each as often as somebody buys it, and the extensions that it has offered.
	ForSale  []capacity.Offering
	Extended map[string][]capacity.Extension // the extensions that were sold, by reservation
	NotPaid  bool                            // payments fail
	// Templates are the newest versions of the launch templates, by name.
	Templates map[string]capacity.LaunchTemplate
	OnDemand  int    // the instances that there is room for outside of the blocks, also in ODCRs of ours
	Console   string // the last line on the console of each instance

	before map[string]change // by id
	tokens map[string]*order // by ClientToken
	IDs    int               // how many ids have been given
}

// change is how something was before its last change; nil if it was not there.
type change struct {
	at          time.Time
	reservation *capacity.Reservation
	instance    *capacity.Instance
}

// consistent is how long EC2 may show what was: the EC2 Developer Guide names five minutes.
const consistent = 5 * time.Minute

// errNotFound is EC2's answer about an id that it does not know.
var errNotFound = &Refusal{Code: "InvalidCapacityReservationId.NotFound", Outcome: ec2.ErrNotDescribed}

// Reserve makes a reservation, which EC2 may show late.
func (e *EC2) Reserve(r capacity.Reservation) {
	e.before[r.ID] = change{at: e.Now()}
	e.All = append(e.All, r)
}

// Change changes a reservation, which EC2 may show late.
func (e *EC2) Change(id string, do func(r *capacity.Reservation)) {
	for i := range e.All {
		if r := &e.All[i]; r.ID == id {
			was := *r
			e.before[id] = change{at: e.Now(), reservation: &was}
			do(r)
		}
	}
}

// Real is what a reservation is now, whatever EC2 shows.
func (e *EC2) Real(id string) (capacity.Reservation, bool) {
	if i := slices.IndexFunc(e.All, func(r capacity.Reservation) bool { return r.ID == id }); i >= 0 {
		return e.stated(e.All[i]), true
	}
	return capacity.Reservation{}, false
}

func (e *EC2) stated(r capacity.Reservation) capacity.Reservation {
	switch {
	case r.State != "":
	case r.Kind.Bought() && e.Now().Before(r.Start.Add(e.OpensLate)):
		r.State = capacity.StateScheduled
	case r.End.IsZero() || e.Now().Before(r.End):
		r.State = capacity.StateActive
	default:
		r.State = capacity.StateExpired
	}
	switch {
	case !r.Kind.Bought():
	case r.State == capacity.StateActive:
		r.Available = max(0, r.Total-e.Of(r.ID))
	case r.State == capacity.StateExpired:
		r.Total, r.Available = 0, 0
	default:
		r.Available = 0
	}
	return r
}

// Open reports whether instances of a reservation may run: EC2 takes those of a block back 30 minutes before its end.
func (e *EC2) Open(id string) bool {
	r, there := e.Real(id)
	return there && r.State == capacity.StateActive && (r.End.IsZero() || !r.Kind.Bought() || e.Now().Before(r.End.Add(-30*time.Minute)))
}

// Of counts the instances of a reservation.
func (e *EC2) Of(id string) (n int) {
	for _, i := range e.Instances {
		if i.ReservationID == id {
			n++
		}
	}
	return n
}

// Free is how many more instances a reservation has room for.
func (e *EC2) Free(id string) int {
	r, _ := e.Real(id)
	if !e.Open(id) {
		return 0
	}
	return r.Total - r.Unhealthy - e.Of(id)
}

// End terminates instances, whoever asks for it.
func (e *EC2) End(ids ...string) {
	e.Instances = slices.DeleteFunc(e.Instances, func(i capacity.Instance) bool {
		if !slices.Contains(ids, i.ID) {
			return false
		}
		e.before[i.ID] = change{at: e.Now(), instance: &i}
		return true
	})
}

func (e *EC2) shows(id string) (was change, late bool) {
	was, changed := e.before[id]
	return was, e.Late && changed && e.Now().Sub(was.at) < consistent
}

func (e *EC2) known() (all []capacity.Reservation) {
	for _, r := range e.All {
		if was, late := e.shows(r.ID); late && was.reservation == nil || slices.Contains(e.Hidden, r.ID) {
			continue
		} else if late {
			r = *was.reservation
		}
		all = append(all, e.stated(r))
	}
	return all
}

func (e *EC2) running() (all []capacity.Instance) {
	for _, i := range e.Instances {
		if _, late := e.shows(i.ID); !late {
			all = append(all, i)
		}
	}
	for id, was := range e.before {
		if _, late := e.shows(id); late && was.instance != nil {
			all = append(all, *was.instance)
		}
	}
	slices.SortFunc(all, func(a, b capacity.Instance) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (e *EC2) read(verb string, do func()) error {
	return e.Do(Call{Verb: verb, EC2: true}, func() error { do(); return nil })
}

// find is what a read of EC2 answers: of all that it shows then, those that are asked for.
func find[T any](e *EC2, verb string, all func() []T, is func(T) bool) (found []T, err error) {
	err = e.read(verb, func() { found = slices.DeleteFunc(all(), func(one T) bool { return !is(one) }) })
	return found, err
}

// Region is where it is.
func (e *EC2) Region() string { return "us-east-2" }

// Offset is AWS's time minus that of the machine, whose clock is Slurm's.
func (e *EC2) Offset() time.Duration { return -e.Skew }

// Explain has no other words for an error.
func (e *EC2) Explain(err error) (words string, general bool) { return err.Error(), false }

// Untold is nothing: all is allowed.
func (e *EC2) Untold() []string { return nil }

// Reservations describes them by id.
func (e *EC2) Reservations(_ context.Context, ids []string) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	err = e.read("describe reservations", func() {
		all := e.known()
		for _, id := range ids {
			if i := slices.IndexFunc(all, func(r capacity.Reservation) bool { return r.ID == id }); i >= 0 {
				found = append(found, all[i])
			} else {
				missing = append(missing, capacity.Missing{ID: id, Err: errNotFound})
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return found, missing, nil
}

// FindReservations are those with all of the tags, in one of the states.
func (e *EC2) FindReservations(_ context.Context, q ec2.ReservationQuery) ([]capacity.Reservation, error) {
	return find(e, "find reservations", e.known, func(r capacity.Reservation) bool {
		return (&capacity.Select{Tags: q.Tags}).Matches(r) && (q.TagKey == "" || r.Tags[q.TagKey] != "") && (q.States == nil || slices.Contains(q.States, r.State))
	})
}

// FindInstances are those that EC2 shows.
func (e *EC2) FindInstances(_ context.Context, q capacity.InstanceQuery) (found []capacity.Instance, err error) {
	err = e.Do(Call{Verb: "find instances", Text: strings.Join(q.IDs, ","), EC2: true}, func() error {
		found = slices.DeleteFunc(e.running(), func(i capacity.Instance) bool {
			cluster, _, _ := strings.Cut(i.Tags[capacity.TagCluster], "/")
			for key, values := range q.Tags {
				if !slices.Contains(values, i.Tags[key]) {
					return true
				}
			}
			return q.IDs != nil && !slices.Contains(q.IDs, i.ID) || q.ClusterName != "" && cluster != q.ClusterName
		})
		return nil
	})
	return found, err
}

// Subnets are in the zone that the end of their name says: subnet-a in use2-az1, subnet-b in use2-az2.
func (e *EC2) Subnets(_ context.Context, ids []string) (found []ec2.Subnet, missing []capacity.Missing, err error) {
	err = e.read("describe subnets", func() {
		for _, id := range ids {
			zone := id[len(id)-1:]
			found = append(found, ec2.Subnet{Subnet: capacity.Subnet{ID: id, AZID: fmt.Sprintf("use2-az%d", zone[0]-'a'+1), AZ: "us-east-2" + zone}})
		}
	})
	return found, nil, err
}

// ImagePlatform is not known.
func (e *EC2) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{}, e.read("describe an image", func() {})
}

// Impaired are the Hosts.
func (e *EC2) Impaired(context.Context) (said map[string]string, err error) {
	err = e.read("describe hosts", func() { said = e.Hosts })
	return said, err
}
