package pcs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Setting is one setting of a node group as it is and as it is wanted, in words for
// people.
type Setting struct {
	Name      string
	Now, Want string
	// Mild: bringing it about replaces no instance and takes no node away.
	Mild bool
}

// Changed reports whether the setting is to be changed.
func (s Setting) Changed() bool { return s.Now != s.Want }

// Comparison is a node group held against what it should be.
type Comparison []Setting

// Changed reports whether anything is to be changed.
func (c Comparison) Changed() bool { return slices.ContainsFunc(c, Setting.Changed) }

// Disruptive reports whether PCS would replace instances, or take nodes away: by
// everything but more nodes and more subnets.
func (c Comparison) Disruptive() bool {
	return slices.ContainsFunc(c, func(s Setting) bool { return s.Changed() && !s.Mild })
}

// newestVersion stands for a version of a launch template that is still to be made.
const newestVersion = "the newest"

// Compare holds a node group against what it should be. A wanted group without
// TemplateVersion is to have a version that is still to be made.
func (g NodeGroup) Compare(want NodeGroup) Comparison {
	c := Comparison{
		{"purchase option", PurchaseOption(g.PurchaseOption), PurchaseOption(want.PurchaseOption), false},
		{"nodes", g.Scaling(), want.Scaling(), want.Max >= g.Max && want.Min >= g.Min},
		{"subnets", sorted(g.SubnetIDs), sorted(want.SubnetIDs), containsAll(want.SubnetIDs, g.SubnetIDs)},
		{"image", g.AMI, want.AMI, false},
		{"instance profile", g.InstanceProfile, want.InstanceProfile, false},
		{"reservation", g.Tags[capacity.TagReservation], want.Tags[capacity.TagReservation], false},
	}
	if g.TemplateID != want.TemplateID || g.TemplateVersion != want.TemplateVersion {
		version := want.TemplateVersion
		if version == "" {
			version = newestVersion
		}
		c = append(c, Setting{"launch template", "version " + g.TemplateVersion, version, false})
	}
	if g.Status == UpdateFailed {
		c = append(c, Setting{"status", fmt.Sprintf("%s (%s)", g.Status, g.Failures), string(Active), true})
	}
	return c
}

// Scaling is the number of nodes in words: "4" if all are up always, else "0 to 4".
func (g NodeGroup) Scaling() string {
	if g.Min == g.Max {
		return strconv.Itoa(g.Max)
	}
	return fmt.Sprintf("%d to %d", g.Min, g.Max)
}

func sorted(ids []string) string {
	return strings.Join(slices.Sorted(slices.Values(ids)), ", ")
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(id string) bool { return !slices.Contains(all, id) })
}
