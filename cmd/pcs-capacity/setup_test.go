package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// Behind its fence a reservation takes no job, and setup sends nobody there.
func TestWhatUsersCan(t *testing.T) {
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	timing := capacity.Timing{DrainMargin: d(10 * time.Minute), ReclaimLead: d(30 * time.Minute)}

	end := simStart.Add(24 * time.Hour)
	block := capacity.Reservation{
		ID:    "cr-1",
		Kind:  capacity.CapacityBlock,
		State: capacity.StateActive,
		Start: simStart,
		End:   end,
	}
	endless := capacity.Reservation{ID: "cr-2", Kind: capacity.ODCR, State: capacity.StateActive, Start: simStart}
	for name, c := range map[string]struct {
		r    capacity.Reservation
		now  time.Time
		says string
	}{
		"before it opens": {
			block,
			simStart.Add(-time.Hour),
			"Users can submit:\n  sbatch --partition=gpu --nodes=4 train.sh",
		},
		"open": {block, end.Add(-41 * time.Minute), "Users can submit:"},
		"behind the fence": {
			block,
			end.Add(-40 * time.Minute),
			"No more jobs start in cr-1: they had to end by 2026-11-21 11:20 UTC. Jobs in gpu wait for its next " +
				"reservation.",
		},
		"over":           {block, end.Add(time.Hour), "No more jobs start in cr-1"},
		"without an end": {endless, end, "Users can submit:"},
	} {
		if got := submitHint(c.r, timing, "gpu", 4, c.now); !strings.HasPrefix(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What --dynamic does not say stays as the settings have it.
func TestSetupKeepsDynamic(t *testing.T) {
	cfg := &maybeConfig{&config.Config{Cluster: "ml", Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Groups: []capacity.GroupSettings{{Name: "on", Dynamic: true}, {Name: "off"}}},
	}}, true}
	yes := true
	for _, test := range []struct {
		group   string
		dynamic *bool
		want    bool
	}{
		{"on", nil, true},
		{"on", new(bool), false},
		{"off", nil, false},
		{"off", &yes, true},
		{"new", nil, false},
		{"new", &yes, true},
	} {
		asks := &SetupCmd{Reservation: "cr-1", Queue: "gpu", NodeGroup: test.group, Dynamic: test.dynamic}

		r, err := asks.request(t.Context(), cfg)
		if err != nil || r.Dynamic != test.want {
			t.Errorf("%+v: dynamic %t, %v", test, r.Dynamic, err)
		}
	}
}

// With its nodes up, a block has no free instance for EC2. Those that Slurm has idle are free all the
// same, for fit, list and timeline; those that are down, or have a job, are not.
func TestIdleNodes(t *testing.T) {
	slurm := newFakeSlurm(t, t.Cleanup, t.TempDir(), time.Now)
	slurm.up("gpu-[1-6]")
	slurm.Lock()
	for i, state := range []string{
		"IDLE+CLOUD",
		"MIXED+CLOUD",
		"ALLOCATED+CLOUD",
		"IDLE+CLOUD+POWERED_DOWN",
		"IDLE+CLOUD+POWERING_UP",
		"IDLE+CLOUD",
	} {
		slurm.All[i].State = state
	}
	slurm.Unlock()
	t.Setenv("PATH", slurm.StateSave)

	cfg := &maybeConfig{&config.Config{Partitions: []capacity.PartitionSettings{{Name: "gpu"}}}, true}
	if idle := readIdle(t.Context(), cfg); idle.err != nil || !slices.Equal(idle.names, []string{"gpu-1", "gpu-6"}) {
		t.Errorf("idle are %v (%v)", idle.names, idle.err)
	}
}

// Only what needs an administrator makes the exit status of `status` 1, and programs see who has to act.
func TestStatusIsRedForAdministratorsOnly(t *testing.T) {
	user := capacity.Problem{
		Code:     capacity.NeverStarts,
		About:    capacity.Subject{Job: "7"},
		Severity: capacity.User,
		Sentence: "job 7 can never start",
	}
	note := capacity.Problem{Severity: capacity.Note, Sentence: "cr-9 has ended"}
	admin := capacity.Problem{Severity: capacity.Admin, Sentence: "a host has failed", Fix: "open a case"}
	for name, c := range map[string]struct {
		said []capacity.Problem
		err  error
		red  bool
		json string
	}{
		"nothing": {json: `[]`},
		"what users and nobody do": {
			said: []capacity.Problem{note, user},
			json: `[{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"},` +
				`{"severity":"note","message":"cr-9 has ended"}]`,
		},
		"what an administrator has": {
			said: []capacity.Problem{user, admin},
			red:  true,
			json: `[{"severity":"admin","message":"a host has failed","fix":"open a case"},` +
				`{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"}]`,
		},
		"what could not be asked": {err: errors.New("no answer"), red: true, json: `[]`},
		"one of no known severity": {
			said: []capacity.Problem{{Sentence: "x"}},
			red:  true,
			json: `[{"severity":"","message":"x"}]`,
		},
	} {
		doc := statusDocument{}
		doc.Add(c.said...)

		text, err := json.Marshal(doc.All())
		if red := doc.exitError(c.err) != nil; red != c.red || err != nil || string(text) != c.json {
			t.Errorf("%s: red %t, %s, %v", name, red, text, err)
		}
	}
}
