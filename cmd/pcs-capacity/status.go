package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// StatusCmd shows what there is.
type StatusCmd struct {
	Partition string `arg:"" optional:"" predictor:"partition" help:"Show only this partition."`
}

func (StatusCmd) Help() string {
	return `Asks AWS and Slurm, and changes nothing. What does not answer is shown as sync last saw
it; while sync runs, users need no AWS credentials. The exit status is 1 if there are problems
that need an administrator; user problems, for the owners of jobs, and notes leave it 0.`
}

// statusRow describes one slot of a partition.
type statusRow struct {
	Partition   string         `json:"partition"`
	Slot        string         `json:"slot"`
	Reservation string         `json:"reservation"`
	State       string         `json:"state"`
	Start       time.Time      `json:"start,omitzero"`
	Fence       time.Time      `json:"fence,omitzero"`
	End         time.Time      `json:"end,omitzero"`
	NodeStates  map[string]int `json:"node_states,omitempty"`
	NodesUp     *int           `json:"nodes_up,omitempty"` // The numbers are nil when Slurm did not answer
	NodesTotal  *int           `json:"nodes_total,omitempty"`
	Running     *int           `json:"jobs_running,omitempty"`
	Pending     *int           `json:"jobs_pending_in_partition,omitempty"`
	Next        string         `json:"next,omitempty"`
	NextAt      time.Time      `json:"next_at,omitzero"`
	// Holding is what sync holds for waiting jobs; nil for nothing.
	Holding *capacity.Holding `json:"holding,omitempty"`
	held    string            // Holding in words
	now     time.Time
	another bool // a row of the same partition stands above
}

const statusColumns = "PARTITION: Partition; SLOT: Slot; RESERVATION: Reservation; STATE: State; " +
	"OPENS: Start drop 3; FENCE: Fence drop 6; " +
	"ENDS: End drop 2; NODES UP: Up; NODE STATES: NodeStates drop 1; RUNNING: Running drop 5; " +
	"PENDING: Waiting drop 4; NEXT: Event"

// Up says how many of the nodes are.
func (r statusRow) Up() string {
	if r.NodesUp == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", *r.NodesUp, *r.NodesTotal)
}

// Waiting returns the number of jobs that wait in the partition, in the first of its rows only: they have no slot.
func (r statusRow) Waiting() *int {
	if r.another {
		return nil
	}

	return r.Pending
}

// Event names the next event and the time until it.
func (r statusRow) Event() string {
	if r.Next == "" {
		return ""
	}
	return fmt.Sprintf("%s in %s", r.Next, capacity.FormatUntil(r.NextAt.Sub(r.now)))
}

// statusDocument is the JSON form.
type statusDocument struct {
	TakenAt time.Time `json:"taken_at"` // when AWS was last asked with success
	// SyncedAt is when sync last asked AWS with success; zero if it never did.
	SyncedAt          time.Time   `json:"synced_at,omitzero"`
	Region            string      `json:"region"`
	Cluster           string      `json:"cluster,omitempty"`
	Partitions        []statusRow `json:"partitions"`
	Lent              []lent      `json:"lent,omitempty"`
	capacity.Problems `json:"problems"`
}

// lent has what jobs of a spare partition have of a partition's nodes.
type lent struct {
	Partition string   `json:"partition"`
	Spare     string   `json:"spare"`
	Nodes     int      `json:"nodes"`
	Running   int      `json:"jobs_running"`
	Pending   int      `json:"jobs_pending"`
	Users     []string `json:"users,omitempty"` // of the running jobs
}

func (n lent) String() string {
	count := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, more)
	}

	nodes := count(n.Nodes, "node", "nodes")
	if n.Nodes == 0 {
		nodes = "no node"
	}

	jobs := ""
	if n.Running > 0 {
		jobs = fmt.Sprintf(", for %s of %s", count(n.Running, "job", "jobs"), strings.Join(n.Users, ", "))
	}

	return fmt.Sprintf("Partition %s lends %s to %s%s; %s there.", n.Partition, nodes, n.Spare, jobs,
		count(n.Pending, "job waits", "jobs wait"))
}

// lent says who borrows nodes.
func (l look) lent() (all []lent) {
	for _, p := range l.snap.Partitions {
		if p.Spare.Name == "" || l.cluster == nil {
			continue
		}

		one := lent{Partition: p.Name, Spare: p.Spare.Name}
		nodes := map[string]bool{}

		for i := range l.jobs {
			switch j := &l.jobs[i]; {
			case !j.InPartition(one.Spare):
			case j.CanStart():
				one.Pending++
			case j.Allocated():
				one.Running++

				if !slices.Contains(one.Users, j.User) {
					one.Users = append(one.Users, j.User)
				}

				for _, name := range j.Nodes {
					nodes[name] = true
				}
			}
		}

		one.Nodes = len(nodes)
		slices.Sort(one.Users)
		all = append(all, one)
	}

	return all
}

// look holds what status has read.
type look struct {
	snap    *capacity.Snapshot
	written *capacity.Snapshot // by sync; nil if there is none
	cluster *lifecycle.Cluster // nil if Slurm did not answer
	aws     *bool              // whether AWS answered; nil if there was nothing to ask
	jobs    []capacity.Job
	records []state.Record
	now     time.Time
}

// look asks AWS and Slurm. The error is that of either.
func (c *StatusCmd) look(ctx context.Context, sources lifecycle.Sources) (look, error) {
	var (
		l   look
		err error
	)

	l.written, _ = sources.State.ReadSnapshot() // what is wrong with it, Look says
	l.snap, l.cluster, l.aws, err = lifecycle.Look(ctx, sources)
	l.now = sources.MachineTime().Add(l.snap.ClockOffset.Duration)

	fresh := l.written != nil && !l.written.TakenAt.IsZero() && !l.written.IsStale(l.now)
	if fresh && l.cluster != nil && l.aws != nil && !*l.aws {
		// Sync has asked AWS just now: a user without credentials needs nothing more.
		err = nil

		for i := range l.snap.Problems {
			if l.snap.Problems[i].Code == capacity.AWSUnanswered {
				l.snap.Problems[i].Severity = capacity.Note
			}
		}
	}

	if l.cluster != nil {
		var jobsErr error

		l.jobs, _, jobsErr = sources.Slurm.JobsOf(ctx, l.cluster.OurPartitions(l.snap), nil)
		if jobsErr != nil {
			l.snap.Add(capacity.Problemf(capacity.SlurmUnanswered, capacity.Subject{}, "", "%v", jobsErr))
			err = jobsErr
		}

		l.snap.Add(lifecycle.TailProblems(l.snap, l.cluster, l.jobs, l.now)...)
	}

	var recordsErr error

	l.records, recordsErr = sources.State.Records()
	if recordsErr != nil && !errors.Is(recordsErr, fs.ErrPermission) { // which are not for everyone
		l.snap.Add(capacity.Problemf(capacity.StateFile, capacity.Subject{}, "", "%v", recordsErr))
	}

	return l, err
}

// document returns what status shows.
func (l look) document() statusDocument {
	doc := statusDocument{
		TakenAt:    l.snap.TakenAt,
		Region:     l.snap.Region,
		Cluster:    l.snap.Cluster,
		Partitions: []statusRow{},
		Problems:   l.snap.Problems,
	}
	doc.Add(lifecycle.PartitionProblems(l.snap, l.jobs, l.records, l.now)...)

	if l.written != nil {
		doc.SyncedAt = l.written.TakenAt
	}

	if l.written != nil && l.written.IsStale(l.now) {
		doc.Add(capacity.Problemf(capacity.HeartbeatLost, capacity.Subject{},
			"keep `pcs-capacity sync --watch` running", "sync last saw AWS %s ago",
			capacity.FormatDuration(l.now.Sub(l.written.TakenAt))))
	}

	for _, s := range l.snap.SlotStates(l.now) {
		row := newStatusRow(s, l.cluster, l.jobs, l.now)
		n := len(doc.Partitions)
		row.another = n > 0 && doc.Partitions[n-1].Partition == row.Partition
		doc.Partitions = append(doc.Partitions, row)
	}

	doc.Lent = l.lent()
	doc.Problems = doc.All()

	return doc
}

func (c *StatusCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	if c.Partition != "" {
		i := slices.IndexFunc(cfg.Partitions, func(p capacity.PartitionSettings) bool {
			return slices.Contains(p.SlurmNames(), c.Partition)
		})
		if i < 0 {
			return usage("%q is not a partition in the settings; they have %s", c.Partition, partitionNames(cfg))
		}

		c.Partition = cfg.Partitions[i].Name // the lender's, of a spare one
	}

	progress := t.Slow("asking AWS and Slurm")
	defer progress.Done()

	l, lookErr := c.look(ctx, sourcesIfAny(ctx, g, cfg))
	if c.Partition != "" {
		l.snap.Partitions = slices.DeleteFunc(l.snap.Partitions,
			func(p capacity.Partition) bool { return p.Name != c.Partition })
	}

	doc := l.document()

	progress.Done()

	if err := t.Show(doc, doc.Partitions, statusColumns); err != nil {
		return err
	}

	if t.Format != terminal.JSON && t.Format != terminal.YAML {
		for _, row := range doc.Partitions {
			if row.Holding != nil {
				t.Say("Slot %s: %s.", row.Slot, row.held)
			}
		}

		for _, one := range doc.Lent {
			t.Say("%s", one)
		}

		for _, p := range doc.Problems {
			t.Say("%s", p)
		}

		printAge(t, l.snap, l.written, l.aws, l.cluster != nil, l.now)
	}

	if len(cfg.Partitions) == 0 {
		t.Say("The settings have no partition; `pcs-capacity setup` adds one.")
	}

	return doc.exitError(lookErr)
}

// exitError returns an error if something could not be asked, or needs an administrator.
func (d *statusDocument) exitError(err error) error {
	if err != nil || len(d.Texts(capacity.Admin)) > 0 {
		return errReported
	}
	return nil
}

// printAge says how old what is shown is.
func printAge(t *terminal.Terminal, snap, written *capacity.Snapshot, answered *bool, slurmAnswered bool,
	now time.Time,
) {
	ago := func(at time.Time) string { return capacity.FormatDuration(max(0, now.Sub(at))) + " ago" }
	aws := "live"
	slurm := "live"
	sync := "never"

	switch {
	case answered == nil:
		aws = "no reservation to ask about"
	case !*answered && snap.TakenAt.IsZero():
		aws = "no answer yet, so the reservations of the settings are shown"
	case !*answered:
		aws = fmt.Sprintf("as of %s, %s", t.Time(snap.TakenAt), ago(snap.TakenAt))
	}

	if !slurmAnswered {
		slurm = "no answer"
	}

	if written != nil && !written.TakenAt.IsZero() {
		sync = ago(written.TakenAt)
	}

	t.Say("AWS: %s. Slurm: %s. Last sync: %s.", aws, slurm, sync)
}

func partitionNames(cfg *config.Config) string {
	var names []string
	for _, p := range cfg.Partitions {
		names = append(names, p.Name)
	}

	if len(names) == 0 {
		return "none"
	}

	return strings.Join(names, ", ")
}

func newStatusRow(s capacity.SlotState, cluster *lifecycle.Cluster, jobs []capacity.Job, now time.Time) statusRow {
	w := s.Window
	next := s.Event(now)
	if s.Reservation.ID == "" {
		w = s.Last
	}

	row := statusRow{
		Partition:   s.Partition.Name,
		Slot:        s.Slot.Name,
		Reservation: s.Reservation.ID,
		State:       string(s.Reservation.State),
		Start:       w.Start,
		Fence:       w.Fence,
		End:         w.End,
		NodeStates:  map[string]int{},
		Next:        next.What,
		NextAt:      next.At,
		Holding:     s.Slot.Holding,
		held:        s.DescribeHolding(),
		now:         now,
	}
	if row.Reservation == "" {
		row.State = emptySlotState(s)
		ids := s.Slot.ReservationIDs
		if row.State == "ended" && s.Partition.Provider == capacity.ProviderPCS {
			ids = ids[:1] // what the slot was set up for; others were there before it
		}

		row.Reservation = strings.Join(ids, " ")
	}

	if cluster == nil {
		return row
	}

	ours := map[string]bool{}
	for _, n := range cluster.SlotNodes(s.Slot.Name) {
		ours[n] = true
	}

	total := len(ours)

	var up, running, pending int
	for i := range cluster.Nodes {
		if n := &cluster.Nodes[i]; ours[n.Name] {
			row.NodeStates[n.ShortState()]++
			if n.IsUp() {
				up++
			}
		}
	}

	for i := range jobs {
		switch j := &jobs[i]; {
		case j.State == "RUNNING" && slices.ContainsFunc(j.Nodes, func(n string) bool { return ours[n] }):
			running++
		case j.CanStart() && j.InPartition(s.Partition.Name):
			pending++
		}
	}

	row.NodesUp = &up
	row.NodesTotal = &total
	row.Running = &running
	row.Pending = &pending

	return row
}

// emptySlotState returns the state of a slot that has no live reservation.
func emptySlotState(s capacity.SlotState) string {
	switch {
	case !s.Group.PurchaseOption.IsReserved():
		return "on-demand"
	case len(s.Slot.ReservationIDs) == 0:
		return "free"
	case s.Unknown:
		return "unknown"
	}

	return "ended"
}
