package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const arnPrefix = "arn:aws:ec2:us-east-2:111122223333:capacity-reservation/"

// Pools are the Capacity Reservation groups of a region.
type Pools struct {
	ec2 *EC2
	All map[string][]string // the ids of their reservations, by name

	Tags map[string]map[string]string // of those that have some, by name
}

// errNoGroup is the error of a Capacity Reservation group that does not exist.
var errNoGroup = &Refusal{Code: "NotFoundException", Message: "Cannot find the group.", Outcome: capacity.ErrRefused}

// Members returns the reservations of a group that are live.
func (p *Pools) Members(_ context.Context, group string) ([]string, error) {
	e := p.ec2

	return answer(e.Model, Call{Verb: "list group", Text: group, EC2: true}, func() (ids []string, err error) {
		all, there := e.Pools.All[group]
		if !there {
			return nil, errNoGroup
		}

		for _, id := range all {
			if r, _ := e.Real(id); r.State.IsLive() {
				ids = append(ids, id)
			}
		}

		return ids, nil
	})
}

// Add adds reservations to a group. Instances that were launched into the group and run outside of a reservation move
// into them.
func (p *Pools) Add(_ context.Context, group string, arns []string) error {
	e := p.ec2

	return e.change("add to group", group+" "+strings.ReplaceAll(strings.Join(arns, ","), arnPrefix, ""), func() error {
		if _, there := e.Pools.All[group]; !there {
			return errNoGroup
		}

		for _, arn := range arns {
			id := strings.TrimPrefix(arn, arnPrefix)
			if r, _ := e.Real(id); r.State != capacity.StateActive {
				return &Refusal{Code: "GENERAL_VALIDATION_ERROR", Message: id + " is not active.", Outcome: capacity.ErrRefused}
			}

			if !slices.Contains(e.Pools.All[group], id) {
				e.Pools.All[group] = append(e.Pools.All[group], id)
			}
		}

		e.adopt(group)

		return nil
	})
}

// Find returns a group with the tags that it was created with.
func (p *Pools) Find(_ context.Context, name string) (group capacity.ReservationGroup, found bool, err error) {
	group, err = answer(p.ec2.Model, Call{Verb: "find group", Text: name, EC2: true}, func() (capacity.ReservationGroup, error) {
		_, found = p.All[name]
		if !found {
			return capacity.ReservationGroup{}, nil
		}

		return p.group(name), nil
	})

	return group, found, err
}

func (p *Pools) group(name string) capacity.ReservationGroup {
	return capacity.ReservationGroup{Name: name, ARN: "arn:aws:resource-groups:us-east-2:111122223333:group/" + name, Tags: p.Tags[name]}
}

// Create creates a group.
func (p *Pools) Create(_ context.Context, name string, tags map[string]string) (made capacity.ReservationGroup, err error) {
	err = p.ec2.change("create group", name, func() error {
		if _, there := p.All[name]; there {
			return &Refusal{Code: "BadRequestException", Message: "It exists.", Outcome: capacity.ErrRefused}
		}

		p.All[name] = nil
		p.Tags[name] = maps.Clone(tags)
		made = p.group(name)

		return nil
	})

	return made, err
}

// Delete deletes a group, if there is one.
func (p *Pools) Delete(_ context.Context, name string) error {
	return p.ec2.change("delete group", name, func() error {
		delete(p.All, name)
		delete(p.Tags, name)

		return nil
	})
}

// ModifyODCR changes the number of instances and the end of an ODCR.
func (e *EC2) ModifyODCR(_ context.Context, id string, count int, end time.Time) error {
	return e.change("modify reservation", fmt.Sprintf("%s to %d until %s", id, count, Clock(end)), func() error {
		r, _ := e.Real(id)
		grows := count - r.Total
		if r.State != capacity.StateActive || count < e.of(id) || grows > 0 && grows > e.roomIn(r.AZID) {
			return &Refusal{Code: "InvalidParameterValue", Outcome: capacity.ErrRefused}
		}

		e.Change(id, func(r *capacity.Reservation) {
			r.Total = count
			r.End = end
		})

		return nil
	})
}

// leave takes the instances out of a reservation that is over. They go on in another one of their group that has room,
// or on demand.
func (e *EC2) leave(id string) {
	for i := range e.Instances {
		if in := &e.Instances[i]; in.ReservationID == id {
			in.ReservationID = ""
		}
	}

	for group := range e.Pools.All {
		e.adopt(group)
	}
}

// adopt moves instances that were launched into a group, and run outside of a reservation, into those of the group.
func (e *EC2) adopt(group string) {
	for i := range e.Instances {
		in := &e.Instances[i]
		if in.ReservationID != "" || in.Tags[launchedInto] != group {
			continue
		}

		for _, id := range e.Pools.All[group] {
			if r, _ := e.Real(id); e.room(id) > 0 && r.AZID == in.SubnetID {
				in.ReservationID = id
				break
			}
		}
	}
}

// launchedInto names the group of an instance.
const launchedInto = "group"

// LaunchIntoGroup launches nodes as PCS does, each into a reservation of the group that has room. It takes those down
// for which there is none.
func (s *Slurm) LaunchIntoGroup(group string, nodes []string) {
	for _, name := range nodes {
		into := slices.IndexFunc(s.EC2.Pools.All[group], func(id string) bool { return s.EC2.room(id) > 0 })
		if into < 0 {
			s.off(s.Node(name), "POWER_DOWN")
			continue
		}

		id := s.EC2.Pools.All[group][into]
		r, _ := s.EC2.Real(id)

		launched, err := s.EC2.launch(capacity.Launch{
			ClientToken:   fmt.Sprint(name, s.Now),
			SubnetID:      r.AZID,
			ReservationID: id,
			Count:         1,
			Tags:          map[string]string{launchedInto: group, capacity.TagNode: name},
		})
		if err == nil {
			s.at(s.Node(name), launched[0].PrivateIP)
		}
	}
}
