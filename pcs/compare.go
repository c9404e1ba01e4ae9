package pcs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Setting is one setting of a node group, as found and as wanted, in words for people.
type Setting struct {
	Name      string
	Now, Want string
	// Mild: the change replaces no instance and removes no node.
	Mild bool
}

// Changed reports whether the setting changes.
func (s Setting) Changed() bool { return s.Now != s.Want }

// Comparison is a node group compared with the wanted one.
type Comparison []Setting

// Changed reports whether any setting changes.
func (c Comparison) Changed() bool { return slices.ContainsFunc(c, Setting.Changed) }

// Disruptive reports whether PCS would replace instances or remove nodes: every change does but
// more nodes and more subnets.
func (c Comparison) Disruptive() bool {
	return slices.ContainsFunc(c, func(s Setting) bool { return s.Changed() && !s.Mild })
}

// newestVersion stands for a version of a launch template that does not exist yet.
const newestVersion = "the newest"

// Compare compares a node group with the wanted one. A wanted group without TemplateVersion gets a
// version that does not exist yet.
func (g NodeGroup) Compare(want NodeGroup) Comparison {
	c := Comparison{
		{"purchase option", g.PurchaseOption.PCSPurchaseOption(), want.PurchaseOption.PCSPurchaseOption(), false},
		{"nodes", g.Scaling(), want.Scaling(), want.Max >= g.Max && want.Min >= g.Min},
		{"subnets", sorted(g.SubnetIDs), sorted(want.SubnetIDs), containsAll(want.SubnetIDs, g.SubnetIDs)},
		{"image", g.AMI, want.AMI, false},
		{"instance profile", g.InstanceProfile, want.InstanceProfile, false},
		{"reservation", g.Tags[capacity.TagReservation], want.Tags[capacity.TagReservation], false},
	}
	if actions := g.Actions.compared(want.Actions); actions.Now+actions.Want != "" {
		c = append(c, actions)
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
