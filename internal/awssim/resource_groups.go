package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// AWS Resource Groups, as far as Capacity Reservations are in its groups: reservations of every kind, also those that
// other accounts share (EC2 User Guide, "Capacity Reservation Resource Groups").

// ResourceGroupScenario is a group of Capacity Reservations.
type ResourceGroupScenario struct {
	Name         string   `toml:"name"`
	Reservations []string `toml:"reservations"` // ids
	Joining      []string `toml:"joining"`      // ids of reservations that are still being added: PENDING
}

// resourceGroups answers REST: the path names the operation.
const resourceGroups = "resource-groups"

var resourceGroupPaths = map[string]string{"/list-group-resources": "ListGroupResources", "/group-resources": "GroupResources", "/ungroup-resources": "UngroupResources",
	"/groups": "CreateGroup", "/delete-group": "DeleteGroup"}

func (s *Sim) resourceGroupOperations() map[string]operation {
	return map[string]operation{
		"CreateGroup":        s.createGroup,
		"DeleteGroup":        s.deleteGroup,
		"ListGroupResources": s.listGroupResources,
		"GroupResources": func(c *call) ([]byte, error) {
			return s.regroup(c, func(ids []string, id string) []string { return append(ids, id) })
		},
		"UngroupResources": func(c *call) ([]byte, error) {
			return s.regroup(c, func(ids []string, _ string) []string { return ids })
		},
	}
}

// groupRequest is the body of the operations.
type groupRequest struct {
	Group        string
	GroupName    string // the older name of Group, in DeleteGroup
	ResourceArns []string
	MaxResults   *int
	NextToken    string
}

func (s *Sim) resourceGroupARN(region, name string) string {
	return s.arn(resourceGroups, region, "group/"+name)
}

// resourceGroup finds a group by its name, or by its ARN.
func (s *Sim) resourceGroup(r *region, nameOrARN string) *ResourceGroupScenario {
	for i := range r.resourceGroups {
		g := &r.resourceGroups[i]
		if nameOrARN == g.Name || nameOrARN == s.resourceGroupARN(r.name, g.Name) {
			return g
		}
	}
	return nil
}

func (s *Sim) readGroup(c *call) (in groupRequest, g *ResourceGroupScenario, err error) {
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return in, nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: err.Error()}
	}
	in.Group = cmp.Or(in.Group, in.GroupName)
	if g = s.resourceGroup(c.region, in.Group); g == nil {
		return in, nil, &APIError{Code: "NotFoundException", Status: http.StatusNotFound, Message: "Group " + in.Group + " not found"} // its words are a guess
	}
	return in, g, nil
}

// reservationPool is the configuration of a group whose members are Capacity Reservations (EC2 User Guide, "Create a
// Capacity Reservation group").
const reservationPool = "AWS::EC2::CapacityReservationPool"

func (s *Sim) createGroup(c *call) ([]byte, error) {
	var in struct {
		Name, Description string
		Configuration     []struct{ Type string }
	}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: err.Error()}
	}
	pool := false
	for _, item := range in.Configuration {
		pool = pool || item.Type == reservationPool
	}
	switch {
	case !pool:
		return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: "The simulator has groups with the configuration " + reservationPool}
	case s.resourceGroup(c.region, in.Name) != nil:
		return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: "Group " + in.Name + " already exists"} // its words are a guess
	}
	c.region.resourceGroups = append(c.region.resourceGroups, ResourceGroupScenario{Name: in.Name})
	return json.Marshal(map[string]any{"Group": s.wireGroup(c.Region, in.Name, in.Description)})
}

func (s *Sim) deleteGroup(c *call) ([]byte, error) {
	_, g, err := s.readGroup(c)
	if err != nil {
		return nil, err
	}
	name := g.Name
	c.region.resourceGroups = slices.DeleteFunc(c.region.resourceGroups, func(other ResourceGroupScenario) bool { return other.Name == name })
	return json.Marshal(map[string]any{"Group": s.wireGroup(c.Region, name, "")})
}

func (s *Sim) wireGroup(region, name, description string) map[string]string {
	return map[string]string{"GroupArn": s.resourceGroupARN(region, name), "Name": name, "Description": description}
}

// mostListed is the largest page of ListGroupResources (Resource Groups API Reference).
const mostListed = 50

func (s *Sim) listGroupResources(c *call) ([]byte, error) {
	in, g, err := s.readGroup(c)
	if err != nil {
		return nil, err
	}
	type status struct{ Name string }
	type identifier struct{ ResourceArn, ResourceType string }
	type item struct {
		Identifier identifier
		Status     *status `json:",omitempty"`
	}
	all := []item{}
	for _, id := range slices.Concat(g.Reservations, g.Joining) {
		one := item{Identifier: identifier{s.arn("ec2", c.Region, "capacity-reservation/"+id), "AWS::EC2::CapacityReservation"}}
		if slices.Contains(g.Joining, id) {
			one.Status = &status{"PENDING"}
		}
		all = append(all, one)
	}
	size := mostListed
	if in.MaxResults != nil {
		size = *in.MaxResults
	}
	from := 0
	if in.NextToken != "" {
		if from, err = strconv.Atoi(in.NextToken); err != nil || from > len(all) {
			return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: "Invalid NextToken"}
		}
	}
	if size < 1 || size > mostListed {
		return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: fmt.Sprintf("MaxResults %d is not between 1 and %d", size, mostListed)}
	}
	if most := s.scenario.PageSize; most > 0 {
		size = min(size, most)
	}
	out := map[string]any{"QueryErrors": []string{}}
	if to := from + size; to < len(all) {
		all, out["NextToken"] = all[:to], strconv.Itoa(to)
	}
	out["Resources"] = all[from:]
	return json.Marshal(out)
}

// regroup takes each resource out of the group, and puts back what change makes of the rest and it.
func (s *Sim) regroup(c *call, change func(ids []string, id string) []string) ([]byte, error) {
	in, g, err := s.readGroup(c)
	if err != nil {
		return nil, err
	}
	for _, arn := range in.ResourceArns {
		id := arn[strings.LastIndex(arn, "/")+1:]
		if _, err := c.region.reservation(id); err != nil {
			return nil, &APIError{Code: "BadRequestException", Status: http.StatusBadRequest, Message: "Invalid resource " + arn}
		}
		g.Reservations = change(slices.DeleteFunc(g.Reservations, func(other string) bool { return other == id }), id)
	}
	return json.Marshal(map[string]any{"Succeeded": in.ResourceArns})
}

// groupSeats takes places of those members of a resource group that the launch goes with. A launch has one purchasing
// option, so members of other kinds are none of its. EC2 does not say in which order it takes members: here those that
// end first come first. What is left of a launch without one runs on demand, unless it wants reservations only
// (EC2 User Guide, "Launch instances into Capacity Reservations in a group").
func (r *region) groupSeats(o launchOrder, at site, arn string) ([]*reservation, error) {
	g := r.sim.resourceGroup(r, arn)
	if g == nil || !strings.HasPrefix(arn, "arn:") {
		return nil, apiErrorf("InvalidParameterValue", "The resource group '%s' does not exist", arn) // a guess
	}
	market := strings.TrimSuffix(o.marketType(), "on-demand")
	var members, seats []*reservation
	for _, res := range r.byCreation() {
		if slices.Contains(g.Reservations, res.ID) && res.market() == market && res.state == "active" && res.fits(at) && !res.reclaiming {
			members = append(members, res)
		}
	}
	slices.SortStableFunc(members, func(a, b *reservation) int {
		switch {
		case a.end.IsZero() == b.end.IsZero():
			return a.end.Compare(b.end)
		case a.end.IsZero():
			return 1
		}
		return -1
	})
	for _, res := range members {
		for n := r.available(res); n > 0 && len(seats) < o.max; n-- {
			seats = append(seats, res)
		}
	}
	if market == "" && o.preference() != "capacity-reservations-only" {
		for free := r.freeCapacity(pool{at.subnet.zone.id, at.kind.Name}); len(seats) < o.max && free > 0; free-- {
			seats = append(seats, nil)
		}
	}
	if len(seats) < o.min {
		return nil, reservationExceeded()
	}
	return seats, nil
}
