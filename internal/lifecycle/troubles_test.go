package lifecycle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Each trouble is told with what to do, and what is none is not.
func TestTroubles(t *testing.T) {
	now := block("cr-0", "-1h", "24h", capacity.StateActive)
	now.Total, now.AZID = 4, "use2-az1"
	short := now
	short.End = at("40m30s")
	hurt := now
	hurt.Unhealthy = 1
	over := block("cr-9", "-48h", "-1h", capacity.StateExpired)
	over.Unhealthy = 1
	unpaid := block("cr-9", "-1h", "24h", capacity.StatePaymentFailed)
	elsewhere := block("cr-x", "-48h", "-1h", capacity.StateExpired) // of no partition
	gpu := func(j capacity.Job) capacity.Job {
		j.Partition, j.State, j.Shown = "gpu", "PENDING", "7"
		return j
	}
	failed := state.Record{At: at("-1h"), Hook: "resume", Partition: "gpu", Nodes: "gpu-[1-2]", Code: "ReservationCapacityExceeded", Message: "no place"}
	with := func(change func(*state.Record)) state.Record {
		r := failed
		change(&r)
		return r
	}
	launchFailed := func(severity capacity.Severity, nodes, sentence string) capacity.Problem {
		return capacity.Problem{Code: capacity.LaunchFailed, Severity: severity, About: capacity.Subject{Partition: "gpu", Node: nodes}, Sentence: sentence}
	}
	const launch = "partition gpu: nodes gpu-[1-2] were not launched at 2026-11-20 11:00 UTC: ReservationCapacityExceeded: no place"
	tooMany := "the job needs 5 nodes, but the largest reservation of partition gpu that it may use has 4; ask for less"
	for name, c := range map[string]struct {
		rs      []capacity.Reservation
		jobs    []capacity.Job
		records []state.Record
		want    []capacity.Problem
	}{
		"none":               {rs: []capacity.Reservation{now, elsewhere}},
		"a host has failed":  {rs: []capacity.Reservation{hurt}, want: []capacity.Problem{{Code: capacity.HostFailed, Severity: capacity.Admin, About: capacity.Subject{Partition: "gpu", Reservation: "cr-0"}, Sentence: "partition gpu: 1 of 4 hosts of cr-0 have failed, 3 are usable", Fix: "open a case with AWS Support"}}},
		"one of two is over": {rs: []capacity.Reservation{now, over}, want: []capacity.Problem{{Code: capacity.ReservationEnded, Severity: capacity.Note, About: capacity.Subject{Partition: "gpu"}, Sentence: "partition gpu: these reservations have ended; the settings need them no more: cr-9 (expired)"}}},
		"a payment failed": {rs: []capacity.Reservation{now, unpaid}, want: []capacity.Problem{
			{Code: capacity.NeverOpens, Severity: capacity.Admin, About: capacity.Subject{Partition: "gpu"}, Sentence: "partition gpu: these reservations never open; take them out of the settings: cr-9 (payment-failed)"}}},
		"a launch failed": {rs: []capacity.Reservation{now}, records: []state.Record{failed}, want: []capacity.Problem{launchFailed(capacity.Admin, "gpu-[1-2]", launch)}},
		"one of several, once each": {rs: []capacity.Reservation{now}, want: []capacity.Problem{launchFailed(capacity.Admin, "gpu-[1-2]", launch), launchFailed(capacity.Admin, "gpu-3", strings.Replace(launch, "gpu-[1-2]", "gpu-3", 1))},
			records: []state.Record{failed, with(func(r *state.Record) { r.Nodes = "gpu-3" }), failed}},
		"a launch was refused for what the job asks": {rs: []capacity.Reservation{now}, records: []state.Record{with(func(r *state.Record) { r.Code = "too-long" })},
			want: []capacity.Problem{launchFailed(capacity.User, "gpu-[1-2]", strings.Replace(launch, "ReservationCapacityExceeded", "too-long", 1))}},
		"a launch failed long ago":              {rs: []capacity.Reservation{now}, records: []state.Record{with(func(r *state.Record) { r.At = at("-1h1s") })}},
		"another partition's":                   {rs: []capacity.Reservation{now}, records: []state.Record{with(func(r *state.Record) { r.Partition = "other" })}},
		"another hook's":                        {rs: []capacity.Reservation{now}, records: []state.Record{with(func(r *state.Record) { r.Hook = "suspend" })}},
		"the next launch of the nodes was fine": {rs: []capacity.Reservation{now}, records: []state.Record{failed, with(func(r *state.Record) { r.Code = "ok" })}},
		"a job that can never start": {rs: []capacity.Reservation{now}, jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 5, TimeLimit: capacity.Minutes(60)})},
			want: []capacity.Problem{{Code: capacity.NeverStarts, Severity: capacity.User, About: capacity.Subject{Partition: "gpu", Job: "7"}, Sentence: "job 7 can never start: " + tooMany}}},
		"one that could with a shorter limit": {rs: []capacity.Reservation{now}, jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 1, TimeLimit: capacity.Minutes(3000)})},
			want: []capacity.Problem{{Code: capacity.NeverStarts, Severity: capacity.User, About: capacity.Subject{Partition: "gpu", Job: "7"}, Sentence: "job 7 can never start: the job needs 2-02:00:00, but jobs on cr-0 in partition gpu must end by 2026-11-21 11:20 UTC. " +
				"Use --time=23:20:00 or less", Fix: "scontrol update jobid=7 timelimit=23:20:00"}}},
		"one behind others": {rs: []capacity.Reservation{now}, want: []capacity.Problem{launchFailed(capacity.Admin, "gpu-[1-2]", launch), {Code: capacity.NeverStarts, Severity: capacity.User, About: capacity.Subject{Partition: "gpu", Job: "9"}, Sentence: "job 9 can never start: " + tooMany}},
			jobs: []capacity.Job{{Partition: "gpu", State: "RUNNING", NumNodes: 5}, gpu(capacity.Job{NumNodes: 4, TimeLimit: capacity.Minutes(60)}),
				{Partition: "gpu", State: "PENDING", Shown: "9", NumNodes: 5, TimeLimit: capacity.Minutes(60)}},
			records: []state.Record{with(func(r *state.Record) { r.Hook = "suspend" }), failed}},
		"one for which no limit fits": {rs: []capacity.Reservation{short}, jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 1, TimeLimit: capacity.Minutes(60)})},
			want: []capacity.Problem{{Code: capacity.NeverStarts, Severity: capacity.User, About: capacity.Subject{Partition: "gpu", Job: "7"}, Sentence: "job 7 can never start: the job needs 01:00:00, but jobs on cr-0 in partition gpu must end by 2026-11-20 12:00 UTC and no time is left before that; wait for the next block"}}},
		"one that fits":                   {rs: []capacity.Reservation{now}, jobs: []capacity.Job{gpu(capacity.Job{NumNodes: 4, TimeLimit: capacity.Minutes(60)})}},
		"one that runs":                   {rs: []capacity.Reservation{now}, jobs: []capacity.Job{{Partition: "gpu", State: "RUNNING", NumNodes: 5}}},
		"one elsewhere":                   {rs: []capacity.Reservation{now}, jobs: []capacity.Job{{Partition: "cpu", State: "PENDING", NumNodes: 5}}},
		"or in a partition that takes it": {rs: []capacity.Reservation{now}, jobs: []capacity.Job{{Partition: "cpu,gpu", State: "PENDING", NumNodes: 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			snap := oneSlot("ec2", []string{"cr-0", "cr-9"}, c.rs...)
			group := &snap.Partitions[0].Groups[0]
			group.PurchaseOption, group.Subnets = capacity.CapacityBlock, []capacity.Subnet{{ID: "subnet-0", AZID: "use2-az1"}}
			snap.TakenAt, snap.Submit = noon, capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: time.Hour}}
			if diff := cmp.Diff(c.want, Troubles(snap, c.jobs, c.records, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a verdict is remembered by has all that a request is made of.
func TestAsksIsAllOfARequest(t *testing.T) {
	snap := &capacity.Snapshot{}
	request := func(j capacity.Job) string { return fmt.Sprintf("%+v", snap.Request(j)) }
	for i := range reflect.TypeFor[capacity.Job]().NumField() {
		field := reflect.TypeFor[capacity.Job]().Field(i)
		var j capacity.Job
		switch v := reflect.ValueOf(&j).Elem().Field(i); v.Interface().(type) {
		case string:
			v.SetString("x")
		case int:
			v.SetInt(7)
		case bool:
			v.SetBool(true)
		case []string:
			v.Set(reflect.ValueOf([]string{"x"}))
		case time.Time:
			v.Set(reflect.ValueOf(at("1h")))
		case capacity.Limit:
			v.Set(reflect.ValueOf(capacity.Minutes(7)))
		default:
			t.Fatalf("a field of another type: %s", field.Name)
		}
		if requests, asked := request(j) != request(capacity.Job{}), asksOf(&j, at("0s")) != asksOf(&capacity.Job{}, at("0s")); requests && !asked {
			t.Errorf("a request has %s, and what its verdict is remembered by has not", field.Name)
		}
	}
}
