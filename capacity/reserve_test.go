package capacity

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// clean cancels only what has this cluster's mark and our purpose, and that no job waits for.
func TestR4_Needless(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	booting := map[JobRun]bool{{7, 1}: true}
	held := func(purpose string) Reservation {
		return Reservation{ID: "cr-1", Kind: ODCR, State: StateActive, Created: now.Add(-10 * time.Minute), End: now.Add(time.Minute),
			Tags: map[string]string{TagCluster: "ml", TagHold: purpose}}
	}
	with := func(r Reservation, change func(*Reservation)) Reservation { change(&r); return r }
	ended := func(r *Reservation) { r.End = now.Add(-time.Second) }
	token := func(t string) func(*Reservation) { return func(r *Reservation) { r.Tags[TagToken] = t } }
	unheard := map[string]bool{"lost": true, "known": false}
	for name, c := range map[string]struct {
		r       Reservation
		booting map[JobRun]bool
		why     string
	}{
		"for a job that boots":              {held("jobs 7/1"), booting, ""},
		"for several, one of which boots":   {held("jobs 6/0 7/1"), booting, ""},
		"for an earlier run of the job":     {held("jobs 7/0"), booting, "no job waits for it"},
		"for a job that is gone":            {held("jobs 8/0"), booting, "no job waits for it"},
		"Slurm did not answer":              {held("jobs 8/0"), nil, ""},
		"Slurm did not answer, ended":       {with(held("jobs 8/0"), ended), nil, "its end has passed"},
		"EC2 goes on past the end":          {with(held("jobs 7/1"), ended), booting, "its end has passed"},
		"for nodes without a job":           {held("jobs"), booting, "its launch is over"},
		"for nodes that are launched now":   {with(held("jobs"), func(r *Reservation) { r.Created = now }), booting, ""},
		"a probe":                           {held(HoldProbe), booting, "its probe is over"},
		"by hand":                           {held(HoldByHand), booting, ""},
		"by hand, and nobody knows":         {with(held(HoldByHand), token("lost")), booting, "the command that ordered it was cut off before it knew"},
		"by hand, and nobody knows yet":     {with(with(held(HoldByHand), token("lost")), func(r *Reservation) { r.Created = now.Add(-4 * time.Minute) }), booting, ""},
		"by hand, and known":                {with(held(HoldByHand), token("known")), booting, ""},
		"of another cluster":                {with(held("jobs 8/0"), func(r *Reservation) { r.Tags[TagCluster] = "ml2" }), booting, ""},
		"ours, but not held":                {with(held(""), ended), booting, ""},
		"a block":                           {with(held("jobs 8/0"), func(r *Reservation) { r.Kind = CapacityBlock }), booting, ""},
		"cancelled already":                 {with(held("jobs 8/0"), func(r *Reservation) { r.State = StateCancelled }), booting, ""},
		"for more jobs than fit into a tag": {held(HoldJobs(make([]JobRun, 200))), booting, "no job waits for it"},
	} {
		if got := c.r.Needless("ml", c.booting, unheard, now); got != c.why {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
	if n := len(HoldJobs(make([]JobRun, 200))); n > MaxTagValue {
		t.Errorf("a tag of %d characters", n)
	}
}

func TestReserveAllows(t *testing.T) {
	price, _ := ParseMoney("10.5", USD)
	r := Reserve{MaxInstances: 4, Prices: map[string]Money{"a": price}}
	others := []Held{{InstanceType: "a", Count: 2}}
	for name, c := range map[string]struct {
		more Held
		says string
	}{
		"as many as may be": {Held{InstanceType: "a", Count: 1}, ""},
		"too many":          {Held{InstanceType: "a", Count: 3}, "5 instances with these 3, and max_instances of [reserve] is 4"},
	} {
		err := r.Allows(c.more, others)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrReserveLimit) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if got := price.Times(2).For(90 * time.Second).String(); got != "0.525 USD" {
		t.Errorf("2 for 90 s cost %s", got)
	}
}
