package canary

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Free asks EC2 what it can without a block.
type Free struct {
	EC2 *ec2.Client
	// Mark is the value of our tag on all that is made: of a run in this cluster, and of nothing else.
	Mark string
	// InstanceType is launched, in Subnet, of an image of Linux/UNIX. BlockType is only asked about.
	InstanceType, BlockType, ImageID, Subnet string
	// Wait passes time.
	Wait func(context.Context, time.Duration) error
	// Doing is told of each step before it is taken; nil for nobody.
	Doing func(Step)

	zone   string
	offer  string
	tokens [2]string
	held   string
	// heldToken is the token of an order, and reservationEnd its end.
	heldToken string
	end       time.Time
	instances []string
	ended     time.Time
	// unsure: something may have been made that shows only later.
	unsure bool
}

// FreeReport is what a free run found out, for sending back.
type FreeReport struct {
	Version      string    `json:"version"`
	At           time.Time `json:"at"`
	Region       string    `json:"region"`
	InstanceType string    `json:"instance_type"`
	BlockType    string    `json:"block_type"`
	Answers      []Answer  `json:"answers"`
	// Removed are the ids of an earlier run's leftovers. Left are errors of removals.
	Removed []string `json:"removed"`
	Left    []string `json:"left"`
}

// holdTime is the end of the ODCR from its order.
const holdTime = 30 * time.Minute

// Mark is the value of our tag on what a free run makes, by the cluster's own mark. No other part of
// the product takes it for the cluster's: sync would end such an instance.
func Mark(clusterMark string) string {
	name, id := capacity.CutClusterMark(clusterMark)
	if id != "" {
		id = "-" + id
	}
	return capacity.ClusterMark(name, "canary"+id)
}

// Most is the longest time for which a run costs money: one that is killed leaves an instance that
// ends itself, and an ODCR that EC2 ends within an hour of its end.
const Most = holdTime + time.Hour

// The defaults of a run. The image of the instance is AWS's own; it ends itself.
const (
	SmallType  = "t3.micro"
	SmallImage = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
)

// userData ends the instance with the ODCR, whatever becomes of the run.
var userData = fmt.Sprintf("#!/bin/sh\nshutdown -P +%d\n", int(holdTime.Minutes()))

// Run removes what an earlier run left, asks, and removes what it made, whatever happens.
func (f *Free) Run(ctx context.Context) (report FreeReport, err error) {
	report = FreeReport{Region: f.EC2.Region(), InstanceType: f.InstanceType, BlockType: f.BlockType, Removed: []string{}, Left: []string{}}
	if report.Removed, err = f.Clean(ctx); err != nil {
		return report, fmt.Errorf("removing what an earlier run left: %w", err)
	}
	subnets, err := f.EC2.Subnets(ctx, []string{f.Subnet})
	if err != nil {
		return report, err
	}
	f.zone, f.end = subnets[0].AZID, f.EC2.Now().Add(holdTime).Truncate(time.Second)
	f.heldToken, f.tokens = rand.Text(), [2]string{rand.Text(), rand.Text()}
	seen := Seen{}
	for step, more := next(seen); more && ctx.Err() == nil; step, more = next(seen) {
		if f.Doing != nil {
			f.Doing(step)
		}
		seen[step] = f.do(ctx, step)
	}
	report.At = f.EC2.Now()
	report.Answers = decide(seen, report.At)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	if _, cleanErr := f.Clean(after); cleanErr != nil {
		report.Left = append(report.Left, Redact(cleanErr.Error()))
		err = cleanErr
	}
	return report, errors.Join(ctx.Err(), err)
}

func (f *Free) tags() map[string]string {
	return map[string]string{capacity.TagCluster: f.Mark, capacity.TagHold: "canary", capacity.TagName: "pcs-capacity canary"}
}

func (f *Free) launch(token string) capacity.Launch {
	return capacity.Launch{ClientToken: token, InstanceType: f.InstanceType, SubnetID: f.Subnet, ReservationID: f.held, Kind: capacity.ODCR, Count: 1, Tags: f.tags()}
}

// start launches one instance.
func (f *Free) start(ctx context.Context, token string) (string, error) {
	made, err := f.EC2.LaunchImage(ctx, f.launch(token), f.ImageID, userData)
	f.unsure = f.unsure || ec2.Outcome(err) == capacity.Unknown
	var ids []string
	for _, i := range made {
		ids = append(ids, i.ID)
	}
	f.instances = append(f.instances, ids...)
	return strings.Join(ids, " "), err
}

// saw is what a call saw.
func saw(value string, err error) Saw {
	if err != nil {
		return Saw{Code: ec2.Code(err), Said: ec2.Message(err)}
	}
	return Saw{Value: value}
}

// until asks again and again, for at most a time, until the answer is there.
func (f *Free) until(ctx context.Context, every, limit time.Duration, ask func() (there bool, err error)) Saw {
	began := f.EC2.Now()
	for pause := firstPause; ; pause = min(2*pause, every) {
		there, err := ask()
		took := f.EC2.Now().Sub(began)
		switch {
		case err != nil:
			return saw("", err)
		case there:
			return Saw{Took: took}
		case took >= limit:
			return Saw{Took: took, Late: true}
		}
		if err := f.Wait(ctx, pause); err != nil {
			return saw("", err)
		}
	}
}

// firstPause is the time between the first two looks for something; the pause then doubles.
const firstPause = 250 * time.Millisecond

// do takes one step.
func (f *Free) do(ctx context.Context, step Step) Saw {
	switch step {
	case Search:
		offers, err := f.EC2.Offerings(ctx, ec2.OfferingQuery{InstanceType: f.BlockType, Count: 1, Duration: 24 * time.Hour})
		switch {
		case err != nil && !errors.Is(err, ec2.ErrNoBlockQuota): // of the type, the region or the moment
			return Saw{Said: ec2.Code(err) + " " + ec2.Message(err)}
		case len(offers) > 0:
			f.offer = offers[0].ID
		}
		return saw(fmt.Sprintf("%d offerings of one %s for a day", len(offers), f.BlockType), err)
	case TryBuy:
		if f.offer == "" {
			return Saw{Said: "no block is for sale"}
		}
		tags := map[string]string{capacity.TagCluster: f.Mark, capacity.TagPurchase: "canary", capacity.TagOffering: f.offer, capacity.TagFee: "0.00 USD"}
		return saw("DryRunOperation", f.EC2.TryPurchase(ctx, f.offer, platform, tags))
	case TryLaunch:
		l := f.launch(f.tokens[0])
		l.InstanceType, l.Kind, l.ReservationID, l.ClientToken = f.BlockType, capacity.OnDemand, "", rand.Text()
		n, err := f.EC2.TryInterfaces(ctx, l, f.ImageID)
		return saw(fmt.Sprintf("%d network interfaces of %s", n, f.BlockType), err)
	case Hold:
		made, err := f.EC2.Hold(ctx, capacity.HoldOrder{ClientToken: f.heldToken, InstanceType: f.InstanceType, AZID: f.zone, Platform: platform, Count: 1, End: f.end, Tags: f.tags()})
		f.held = made.ID
		f.unsure = f.unsure || ec2.Outcome(err) == capacity.Unknown
		return saw(made.ID, err)
	case Locate:
		found, err := f.EC2.ReservationTopology(ctx, []string{f.held})
		return saw(fmt.Sprintf("%d network nodes", len(found[f.held])), err)
	case LaunchOne:
		return f.until(ctx, 2*time.Second, 2*time.Minute, func() (bool, error) {
			_, err := f.start(ctx, f.tokens[0])
			if errors.Is(err, capacity.ErrNoRoom) {
				return false, nil
			}
			return err == nil, err
		})
	case Find:
		return f.until(ctx, time.Second, 2*time.Minute, func() (bool, error) {
			ids, err := f.EC2.InstanceIDsByTag(ctx, map[string][]string{capacity.TagCluster: {f.Mark}})
			return len(ids) > 0, err
		})
	case LaunchMore:
		return saw(f.start(ctx, f.tokens[1]))
	case End:
		if err := f.EC2.Terminate(ctx, f.instances); err != nil {
			return saw("", err)
		}
		f.ended = f.EC2.Now()
		return f.until(ctx, 5*time.Second, 5*time.Minute, func() (bool, error) {
			return f.EC2.Terminated(ctx, f.instances)
		})
	case Repeat:
		before := slices.Clone(f.instances)
		id, err := f.start(ctx, f.tokens[0])
		which := "a new one"
		if slices.Contains(before, id) {
			which = "that of before"
		}
		return saw(id+", "+which, err)
	case Return:
		s := f.until(ctx, 5*time.Second, 10*time.Minute, func() (bool, error) {
			r, err := f.EC2.Reservation(ctx, f.held)
			return r.Available > 0, err
		})
		s.Took = f.EC2.Now().Sub(f.ended)
		return s
	case Cancel:
		if err := f.EC2.Release(ctx, f.held); err != nil {
			return saw("", err)
		}
		return f.until(ctx, time.Second, 2*time.Minute, func() (bool, error) {
			r, err := f.EC2.Reservation(ctx, f.held)
			return r.State == capacity.State("cancelled"), err
		})
	}
	return Saw{Said: "there is no such step"}
}

// platform is of the reservation, and of the image.
const platform = "Linux/UNIX"

// looks is how often Clean looks for what may show only later, lookEvery apart.
const (
	looks     = 12
	lookEvery = 5 * time.Second
)

// Leftovers is what carries the mark of free runs and costs money.
type Leftovers struct {
	Instances    []capacity.Instance
	Reservations []capacity.Reservation
}

// IDs are the ids of all of it.
func (l Leftovers) IDs() []string {
	ids := []string{}
	for _, i := range l.Instances {
		ids = append(ids, i.ID)
	}
	for _, r := range l.Reservations {
		ids = append(ids, r.ID)
	}
	return ids
}

// Leftovers lists what EC2 shows now.
func (f *Free) Leftovers(ctx context.Context) (l Leftovers, err error) {
	shown, listErr := f.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagCluster: {f.Mark}})
	for _, i := range shown {
		if !i.Ended() {
			l.Instances = append(l.Instances, i)
		}
	}
	var heldErr error
	l.Reservations, heldErr = f.EC2.Holds(ctx, f.Mark)
	return l, errors.Join(listErr, heldErr)
}

// Clean ends the instances and cancels the ODCRs that carry the mark, and returns their ids.
func (f *Free) Clean(ctx context.Context) ([]string, error) {
	removed := []string{}
	for look := 0; ; look++ {
		found, err := f.cleanOnce(ctx)
		for _, id := range found {
			if !slices.Contains(removed, id) {
				removed = append(removed, id)
			}
		}
		switch {
		case err != nil:
			return removed, err
		case len(found) == 0 && (!f.unsure || look == looks):
			f.instances, f.held, f.unsure = nil, "", false
			return removed, nil
		case look == looks:
			return removed, fmt.Errorf("EC2 still shows %s", strings.Join(found, " "))
		}
		if err := f.Wait(ctx, lookEvery); err != nil {
			return removed, err
		}
	}
}

// cleanOnce removes what EC2 shows now, and what this run knows of; a failure of one part keeps it
// from no other.
func (f *Free) cleanOnce(ctx context.Context) (found []string, err error) {
	left, listErr := f.Leftovers(ctx)
	found = left.IDs()
	ends := slices.Clone(f.instances) // EC2 may not list them yet
	for _, i := range left.Instances {
		ends = append(ends, i.ID)
	}
	var endErr, cancelErr error
	if len(ends) > 0 {
		endErr = f.EC2.Terminate(ctx, ends)
	}
	if f.held != "" && !slices.Contains(found, f.held) {
		cancelErr = f.EC2.Release(ctx, f.held)
	}
	for _, r := range left.Reservations {
		cancelErr = errors.Join(cancelErr, f.EC2.Release(ctx, r.ID))
	}
	return found, errors.Join(listErr, endErr, cancelErr)
}
