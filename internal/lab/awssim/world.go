package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// region is the content of one region. Guarded by Sim.mu.
type region struct {
	name, optIn     string
	zones           []*zone
	vpcs            []VPCScenario
	subnets         []*subnet
	groups          []SecurityGroupScenario
	images          []ImageScenario
	keyPairs        []string
	placementGroups []string
	types           map[string]*instanceType // of the whole account
	capacity        map[pool]int             // EC2's capacity for launches and ODCRs
	offerings       []*offeringTemplate
	issued          map[string]*offering // every offering that was shown, by id
	limits          Limits
	searched        time.Time // for blocks, last
	metadataTags    bool      // the account's default
	sim             *Sim
	hidden          map[string]time.Time // when a new thing becomes visible, by id
	oldTags         map[string]oldTags   // by id
	extensions      map[string]*extensionOffering

	reservations      map[string]*reservation
	reservationGroups []*reservationGroup
	blocks            map[string]*block
	templates         map[string]*launchTemplate
	instances         map[string]*instance
	pcs               pcsState
}

// pool is one type in one zone.
type pool struct{ zoneID, instanceType string }

type zone struct{ name, id, kind, optIn string }

type subnet struct {
	id, vpc string
	zone    *zone
	prefix  netip.Prefix
	tags    map[string]string
}

// build makes the world of the scenario.
func (s *Sim) build() error {
	sc := s.scenario
	if len(sc.Regions) == 0 {
		return fmt.Errorf("no region")
	}

	types := map[string]*instanceType{}
	for _, t := range sc.InstanceTypes {
		types[t.Name] = newInstanceType(t)
	}

	for _, rs := range sc.Regions {
		r, err := s.buildRegion(rs, types)
		if err != nil {
			return fmt.Errorf("region %s: %w", rs.Name, err)
		}

		s.regions[r.name] = r
		s.order = append(s.order, r.name)
		if err := s.buildPCS(r, rs); err != nil {
			return fmt.Errorf("region %s: %w", r.name, err)
		}
	}

	if s.regions[s.homeRegion()] == nil {
		return fmt.Errorf("home region %q is not one of the regions", s.homeRegion())
	}

	return nil
}

func (s *Sim) buildRegion(rs RegionScenario, types map[string]*instanceType) (*region, error) {
	r := &region{
		name:            rs.Name,
		optIn:           cmp.Or(rs.OptIn, "opt-in-not-required"),
		vpcs:            rs.VPCs,
		groups:          slices.Clone(rs.SecurityGroups),
		images:          slices.Clone(rs.Images),
		types:           types,
		keyPairs:        rs.KeyPairs,
		placementGroups: rs.PlacementGroups,
		capacity:        map[pool]int{},
		limits:          rs.Limits,
		metadataTags:    rs.MetadataTags,
		sim:             s,
		hidden:          map[string]time.Time{},
		oldTags:         map[string]oldTags{},
		issued:          map[string]*offering{},
		extensions:      map[string]*extensionOffering{},
		reservations:    map[string]*reservation{},
		blocks:          map[string]*block{},
		templates:       map[string]*launchTemplate{},
		instances:       map[string]*instance{},
	}
	for _, z := range rs.Zones {
		r.zones = append(
			r.zones,
			&zone{z.Name, z.ID, cmp.Or(z.Type, "availability-zone"), cmp.Or(z.OptIn, "opt-in-not-required")},
		)
	}

	for _, step := range []func(RegionScenario) error{r.buildNetwork, r.buildImages, r.buildCapacity} {
		if err := step(rs); err != nil {
			return nil, err
		}
	}

	for _, res := range rs.Reservations {
		if err := s.buildReservation(r, res); err != nil {
			return nil, fmt.Errorf("reservation %s: %w", res.ID, err)
		}
	}

	for _, lt := range rs.LaunchTemplates {
		if err := s.buildLaunchTemplate(r, lt); err != nil {
			return nil, fmt.Errorf("launch template %s: %w", lt.Name, err)
		}
	}

	return r, nil
}

func (r *region) buildNetwork(rs RegionScenario) error {
	for _, sn := range rs.Subnets {
		z, err := r.zoneNamed(sn.Zone)
		if err != nil {
			return fmt.Errorf("subnet %s: %w", sn.ID, err)
		}

		if r.vpc(sn.VPC) == nil {
			return fmt.Errorf("subnet %s: no vpc %q", sn.ID, sn.VPC)
		}

		prefix, err := netip.ParsePrefix(sn.CIDR)
		if err != nil {
			return fmt.Errorf("subnet %s: %w", sn.ID, err)
		}

		r.subnets = append(r.subnets, &subnet{sn.ID, sn.VPC, z, prefix.Masked(), copyTags(sn.Tags)})
	}

	for _, g := range rs.SecurityGroups {
		if r.vpc(g.VPC) == nil {
			return fmt.Errorf("security group %s: no vpc %q", g.ID, g.VPC)
		}
	}

	return nil
}

func (r *region) buildImages(RegionScenario) error {
	for i := range r.images {
		img := &r.images[i]
		img.Architecture = cmp.Or(img.Architecture, "x86_64")
		img.Platform, img.Created = cmp.Or(img.Platform, "Linux/UNIX"), cmp.Or(img.Created, "2026-10-01")
	}

	return nil
}

func (r *region) buildCapacity(rs RegionScenario) error {
	for _, c := range rs.Capacity {
		z, err := r.zoneNamed(c.Zone)
		if err != nil {
			return fmt.Errorf("capacity: %w", err)
		}

		if r.types[c.Type] == nil {
			return fmt.Errorf("capacity: no instance type %q", c.Type)
		}

		r.capacity[pool{z.id, c.Type}] += c.Count
	}

	for i, o := range rs.Offerings {
		t, err := r.newOfferingTemplate(o)
		if err != nil {
			return fmt.Errorf("offering %d: %w", i+1, err)
		}

		r.offerings = append(r.offerings, t)
	}

	return nil
}

func (r *region) zoneNamed(name string) (*zone, error) {
	if z := find(r.zones, func(z **zone) bool { return (*z).name == name }); z != nil {
		return *z, nil
	}
	return nil, fmt.Errorf("no zone %q", name)
}

func (r *region) vpc(id string) *VPCScenario {
	return find(r.vpcs, func(v *VPCScenario) bool { return v.ID == id })
}

func (r *region) subnet(id string) *subnet {
	if sn := find(r.subnets, func(sn **subnet) bool { return (*sn).id == id }); sn != nil {
		return *sn
	}
	return nil
}

// image finds an image by its id, or by the parameter that names it.
func (r *region) image(id string) *ImageScenario {
	parameter, named := strings.CutPrefix(id, "resolve:ssm:")
	return find(r.images, func(i *ImageScenario) bool { return i.ID == id || named && i.Parameter == parameter })
}

func (r *region) group(id string) *SecurityGroupScenario {
	return find(r.groups, func(g *SecurityGroupScenario) bool { return g.ID == id })
}

// find returns the first item that is wanted, or nil.
func find[T any](items []T, wanted func(*T) bool) *T {
	for i := range items {
		if wanted(&items[i]) {
			return &items[i]
		}
	}

	return nil
}

// copyTags returns a copy that is never nil.
func copyTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, tags)
	return out
}

// sortedValues lists a map's values by key: answers have an order.
func sortedValues[T any](m map[string]T) []T {
	out := make([]T, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}

	return out
}

// newID makes an id such as i-0123456789abcdef0 that is the same in every run of the same scenario.
func (s *Sim) newID(prefix string) string {
	s.serial++
	z := s.serial * 0x9e3779b97f4a7c15 // splitmix64: distinct for distinct serials
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb

	return fmt.Sprintf("%s-0%016x", prefix, z^(z>>31))
}
