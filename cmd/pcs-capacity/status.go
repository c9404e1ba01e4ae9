package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// StatusCmd shows what there is.
type StatusCmd struct{}

// Help is shown below the flags.
func (StatusCmd) Help() string {
	return `Asks AWS and Slurm, and changes nothing. What cannot be asked is shown as it was when sync
last saw it, and the exit status is 1.`
}

// statusRow is one slot of a partition.
type statusRow struct {
	Partition   string    `json:"partition" col:"PARTITION"`
	Slot        string    `json:"slot" col:"SLOT"`
	Reservation string    `json:"reservation" col:"RESERVATION"`
	State       string    `json:"state" col:"STATE"`
	Start       time.Time `json:"start,omitzero" col:"OPENS" drop:"3"`
	Fence       time.Time `json:"fence,omitzero" col:"FENCE" drop:"6"`
	End         time.Time `json:"end,omitzero" col:"ENDS" drop:"2"`
	Nodes       string    `json:"-" col:"NODES UP"`
	NodeStates  counts    `json:"node_states,omitempty" col:"NODE STATES" drop:"1"`
	// The numbers are nil when Slurm did not answer.
	NodesUp    *int      `json:"nodes_up,omitempty"`
	NodesTotal *int      `json:"nodes_total,omitempty"`
	Running    *int      `json:"jobs_running,omitempty" col:"RUNNING" drop:"5"`
	Pending    *int      `json:"jobs_pending_in_partition,omitempty" col:"PENDING" drop:"4"`
	NextShown  string    `json:"-" col:"NEXT"`
	Next       string    `json:"next,omitempty"`
	NextAt     time.Time `json:"next_at,omitzero"`
}

// counts is how many nodes are in which state.
type counts map[string]int

func (c counts) String() string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%d %s", c[state], state))
	}
	return strings.Join(parts, ", ")
}

// statusDocument is the JSON form.
type statusDocument struct {
	// TakenAt is when AWS was last asked with success.
	TakenAt    time.Time   `json:"taken_at"`
	Region     string      `json:"region"`
	Cluster    string      `json:"cluster,omitempty"`
	Partitions []statusRow `json:"partitions"`
	Problems   []string    `json:"problems"`
}

// Run asks and shows.
func (StatusCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *config.Config) error {
	sources := sourcesIfAny(ctx, g, cfg)
	snap, cluster, err := lifecycle.Look(ctx, sources)
	var jobs []lifecycle.Job
	if cluster != nil {
		var jobsErr error
		if jobs, jobsErr = sources.Slurm.Jobs(ctx); jobsErr != nil {
			snap.Problems = append(snap.Problems, jobsErr.Error())
			err = jobsErr
		}
	}
	now := sources.MachineTime().Add(snap.ClockOffset.Duration)
	doc := statusDocument{TakenAt: snap.TakenAt, Region: snap.Region, Cluster: snap.Cluster, Partitions: []statusRow{}, Problems: snap.Problems}
	if doc.Problems == nil {
		doc.Problems = []string{}
	}
	for _, s := range lifecycle.Slots(snap, now) {
		doc.Partitions = append(doc.Partitions, newStatusRow(s, cluster, jobs, now))
	}
	if err := t.Show(doc, doc.Partitions); err != nil {
		return err
	}
	if t.Format != terminal.JSON && t.Format != terminal.YAML {
		for _, p := range doc.Problems {
			t.Say("problem: %s", p)
		}
	}
	if len(cfg.Partitions) == 0 {
		t.Say("The settings have no partition; `pcs-capacity setup` adds one.")
	}
	if err == nil {
		return nil
	}
	if snap.TakenAt.IsZero() {
		t.Say("AWS has never been asked with success from here; the reservations are those of the settings.")
	} else if now.Sub(snap.TakenAt) > time.Minute {
		t.Say("What is shown of AWS is from %s.", t.Time(snap.TakenAt))
	}
	return errShown
}

func newStatusRow(s lifecycle.SlotStatus, cluster *lifecycle.Cluster, jobs []lifecycle.Job, now time.Time) statusRow {
	row := statusRow{Partition: s.Partition.Name, Slot: s.Slot.Name, Reservation: s.Reservation.ID, State: string(s.Reservation.State),
		Start: s.Window.Start, Fence: s.Window.Fence, End: s.Window.End, NodeStates: counts{},
		Next: s.Next.What, NextAt: s.Next.At, NextShown: "-"}
	if s.Next.What != "" {
		row.NextShown = fmt.Sprintf("%s in %s", s.Next.What, capacity.FormatUntil(s.Next.At.Sub(now)))
	}
	if row.Reservation == "" {
		row.State = slotWithout(s)
		ids := s.Slot.ReservationIDs
		if row.State == "ended" && s.Partition.Provider == capacity.ProviderPCS {
			ids = ids[:1] // what the slot was set up for; others were there before it
		}
		row.Reservation = strings.Join(ids, " ")
	}
	row.Nodes = "-"
	if cluster == nil {
		return row
	}
	names := cluster.SlotNodes(s.Slot.Name)
	up, total, running, pending := 0, len(names), 0, 0
	for _, n := range cluster.Nodes {
		if slices.Contains(names, n.Name) {
			row.NodeStates[n.State]++
			if n.Up {
				up++
			}
		}
	}
	row.Nodes = fmt.Sprintf("%d/%d", up, total)
	for _, j := range jobs {
		switch {
		case j.State == "RUNNING" && slices.ContainsFunc(j.Nodes, func(n string) bool { return slices.Contains(names, n) }):
			running++
		case j.State == "PENDING" && slices.Contains(strings.Split(j.Partition, ","), s.Partition.Name):
			pending++
		}
	}
	row.NodesUp, row.NodesTotal, row.Running, row.Pending = &up, &total, &running, &pending
	return row
}

// slotWithout is the state of a slot that has no live reservation.
func slotWithout(s lifecycle.SlotStatus) string {
	switch {
	case s.Group.PurchaseOption == capacity.OnDemand:
		return "on-demand"
	case len(s.Slot.ReservationIDs) == 0:
		return "free"
	case s.Unknown:
		return "unknown"
	}
	return "ended"
}
