package pcs

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Status is PCS's status of a cluster, node group or queue, verbatim.
type Status string

// The statuses that a decision depends on.
const (
	Active       Status = "ACTIVE"
	Creating     Status = "CREATING"
	Updating     Status = "UPDATING"
	Deleting     Status = "DELETING"
	Deleted      Status = "DELETED"
	CreateFailed Status = "CREATE_FAILED"
	UpdateFailed Status = "UPDATE_FAILED"
	DeleteFailed Status = "DELETE_FAILED"
	Suspending   Status = "SUSPENDING"
	Suspended    Status = "SUSPENDED"
)

// Changing reports whether PCS is changing the thing and will stop by itself.
func (s Status) Changing() bool { return s == Creating || s == Updating || s == Deleting }

// Failed reports whether the thing is not as it was to be, and will not be by itself.
func (s Status) Failed() bool { return s != Active && !s.Changing() && s != Deleted }

func (c Cluster) status() Status   { return c.Status }
func (g NodeGroup) status() Status { return g.Status }
func (q Queue) status() Status     { return q.Status }

// Failure is one ErrorInfo of PCS, verbatim.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Failures explain why PCS could not create or update something.
type Failures []Failure

func (fs Failures) String() string {
	var parts []string
	for _, f := range fs {
		parts = append(parts, fmt.Sprintf("%s: %s", f.Code, f.Message))
	}

	if len(parts) == 0 {
		return "PCS gives no reason"
	}

	return strings.Join(parts, "; ")
}

// Cluster is a PCS cluster.
type Cluster struct {
	ID               string   `json:"id"`
	Name             string   `json:"name"`
	ARN              string   `json:"arn"`
	Status           Status   `json:"status"`
	Size             string   `json:"size"`               // SMALL, MEDIUM or LARGE
	SlurmVersion     string   `json:"slurm_version"`      // without the patch, such as 25.05
	SubnetIDs        []string `json:"subnet_ids"`         // of PCS's own interfaces, all in the nodes' VPC
	SecurityGroupIDs []string `json:"security_group_ids"` // of PCS's own interfaces
	Failures         Failures `json:"failures"`           // why PCS could not create or update it
	// SlurmSettings are custom settings, such as CliFilterPlugins and Prolog.
	SlurmSettings map[string]string `json:"slurm_settings,omitempty"`
}

// NotActive returns a sentence about why the cluster cannot be used, and its fix. Both are "" for a
// cluster that is ACTIVE.
func (c Cluster) NotActive() (what, fix string) {
	what = fmt.Sprintf("cluster %s is %s", c.Name, c.Status)
	if len(c.Failures) > 0 {
		what += " (" + c.Failures.String() + ")"
	}

	switch c.Status {
	case Active:
		return "", ""
	case Suspending, Suspended:
		return what + fmt.Sprintf(": AWS PCS suspends a cluster whose Slurm, here %s, is past its end of life",
				c.SlurmVersion),
			`move it to a newer Slurm ("Updating the scheduler version of a cluster" in the AWS PCS User Guide), ` +
				"or name another cluster"
	case UpdateFailed:
		return what, "fix what the update failed on, update the cluster, and run this again once it is ACTIVE"
	case CreateFailed, Deleting, Deleted, DeleteFailed:
		return what, "name another cluster"
	}

	return what, "run this again once it is ACTIVE"
}

// NodeGroup is a PCS compute node group. Members with a name of their own on the wire have it in their tag.
type NodeGroup struct {
	ID, Name, ARN, ClusterID string
	Status                   Status
	Modified                 time.Time     `json:"modifiedAt"` // its last change, by AWS's clock
	PurchaseOption           capacity.Kind // a Kind where we have one, else PCS's word ("SPOT")
	InstanceTypes, SubnetIDs []string
	AMI                      string `json:"amiId"` // "" when the launch template has it
	InstanceProfile          string `json:"iamInstanceProfileArn"`
	// TemplateID and TemplateVersion pin the launch template; both are "" for a group that has none of its
	// own (launchTemplateMode MANAGED). SecurityGroupIDs and KeyName are those of such a group.
	TemplateID, TemplateVersion string
	SecurityGroupIDs            []string
	KeyName                     string            `json:"sshKeyName"`
	Min, Max                    int               // numbers of instances: those that always run, and the most
	SlurmSettings               map[string]string // custom settings, such as Features and Weight
	IdleSeconds                 *int              // how long a node may be idle until PCS ends it; nil as the cluster says
	Actions                     LifecycleActions  `json:"nodeLifecycleActions"` // what nodes run when they boot
	Unknown                     []string          // the settings that this program does not know
	Failures                    Failures          `json:"errorInfo"` // why PCS could not create or update it
	Tags                        map[string]string // also ours: cluster, partition, reservation
}

// Queue is a PCS queue, which is a Slurm partition.
type Queue struct {
	ID, Name, ARN, ClusterID string
	Status                   Status
	GroupIDs                 []string          // its compute node groups, in PCS's order
	SlurmSettings            map[string]string // custom settings, such as AllowAccounts and DefaultTime
	Unknown                  []string          // the settings that this program does not know
	Failures                 Failures          `json:"errorInfo"`
	Tags                     map[string]string
}

// Inventory is a cluster with everything in it.
type Inventory struct {
	Cluster Cluster     `json:"cluster"`
	Groups  []NodeGroup `json:"node_groups"`
	Queues  []Queue     `json:"queues"`
}

// Group finds a node group by name or id.
func (i Inventory) Group(nameOrID string) (NodeGroup, bool) {
	at := slices.IndexFunc(i.Groups, func(g NodeGroup) bool { return g.Name == nameOrID || g.ID == nameOrID })
	if at < 0 {
		return NodeGroup{}, false
	}

	return i.Groups[at], true
}

// Queue finds a queue by name.
func (i Inventory) Queue(name string) (Queue, bool) {
	at := slices.IndexFunc(i.Queues, func(q Queue) bool { return q.Name == name })
	if at < 0 {
		return Queue{}, false
	}

	return i.Queues[at], true
}

// Owns reports whether tags carry our mark for the cluster (R9).
func (c Cluster) Owns(tags map[string]string) bool { return tags[capacity.TagCluster] == c.Name }

// Setting is one setting of a node group, as found and as wanted, in words for people.
type Setting struct {
	Name      string
	Now, Want string
	Mild      bool // the change replaces no instance and removes no node
	// set puts the wanted one in an update, which has only what differs: PCS keeps all else, and replaces instances
	// only for members that concern them. It is nil for what is no member of an update.
	set func(*pcs.UpdateComputeNodeGroupInput)
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
	type update = pcs.UpdateComputeNodeGroupInput

	option := want.PurchaseOption.PCSPurchaseOption()
	scale := func(in *update) { in.ScalingConfiguration = scaling(want) }

	c := Comparison{
		{
			"purchase option",
			g.PurchaseOption.PCSPurchaseOption(),
			option,
			false,
			func(in *update) { in.PurchaseOption = types.PurchaseOption(option) },
		},
		{"nodes", g.Scaling(), want.Scaling(), want.Max >= g.Max && want.Min >= g.Min, scale},
		{
			"subnets",
			sorted(g.SubnetIDs),
			sorted(want.SubnetIDs),
			containsAll(want.SubnetIDs, g.SubnetIDs),
			func(in *update) { in.SubnetIds = want.SubnetIDs },
		},
		{"image", g.AMI, want.AMI, false, func(in *update) { in.AmiId = &want.AMI }},
		{
			"instance profile",
			g.InstanceProfile,
			want.InstanceProfile,
			false,
			func(in *update) { in.IamInstanceProfileArn = &want.InstanceProfile },
		},
		{"reservation", g.Tags[capacity.TagReservation], want.Tags[capacity.TagReservation], false, nil},
	}
	if now, wanted := g.Actions.String(), want.Actions.String(); now+wanted != "" && len(want.Actions) == 0 {
		c = append(c, Setting{"lifecycle actions", now, now, false, nil}) // those that are there stay
	} else if now+wanted != "" {
		if now == wanted && !reflect.DeepEqual(g.Actions, want.Actions) {
			wanted += " (changed)"
		}

		// The SDK has no member for them: see sendActions.
		c = append(c, Setting{"lifecycle actions", now, wanted, false, func(*update) {}})
	}

	if g.TemplateID != want.TemplateID || g.TemplateVersion != want.TemplateVersion {
		c = append(c, Setting{
			"launch template",
			"version " + g.TemplateVersion,
			cmp.Or(want.TemplateVersion, newestVersion),
			false,
			func(in *update) { in.CustomLaunchTemplate = template(want) },
		})
	}

	if g.Status == UpdateFailed {
		c = append(c, Setting{"status", fmt.Sprintf("%s (%s)", g.Status, g.Failures), string(Active), true, scale})
	}

	return c
}

// Scaling returns the number of nodes in words: "4" if all are up always, else "0 to 4".
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

// typeSettings describe the hardware of a node, so they go with its instance type.
var typeSettings = []string{"CpuSpecList", "MemSpecLimit", "Parameters", "RealMemory", "Sockets"}

// Gres is a setting that PCS takes only together with records of gres.conf (gresCustomSettings), which the SDK does not
// have. Without both, PCS describes the GPUs of a type itself: AWS PCS User Guide, "Configuring custom GRES settings".
const Gres = "Gres"

// SettingsFor returns the group's Slurm settings that suit nodes of an instance type, never Gres;
// dropped names the settings that describe the hardware of another type.
func (g NodeGroup) SettingsFor(instanceType string) (kept map[string]string, dropped []string) {
	kept = maps.Clone(g.SlurmSettings)
	delete(kept, Gres)

	if slices.Contains(g.InstanceTypes, instanceType) {
		return kept, nil
	}

	for _, name := range typeSettings {
		if _, has := kept[name]; has {
			delete(kept, name)
			dropped = append(dropped, name)
		}
	}

	return kept, dropped
}

// SettingsText formats Slurm settings as in slurm.conf, such as Features=a, with a separator.
func SettingsText(settings map[string]string, between string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name+"="+settings[name])
	}

	return strings.Join(parts, between)
}

func settingsMap(list []types.SlurmCustomSetting) (all map[string]string) {
	for _, s := range list {
		if all == nil {
			all = map[string]string{}
		}

		all[str(s.ParameterName)] = str(s.ParameterValue)
	}

	return all
}

func settingsList(settings map[string]string) []types.SlurmCustomSetting {
	list := []types.SlurmCustomSetting{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list,
			types.SlurmCustomSetting{ParameterName: aws.String(name), ParameterValue: aws.String(settings[name])})
	}

	return list
}

// withSettings returns all Slurm settings of a queue, the wanted ones included; nil if it has them
// already. PCS only takes the whole list.
func (q Queue) withSettings(want map[string]string) map[string]string {
	merged := ChangedSettings(q.SlurmSettings, want)
	if maps.Equal(merged, q.SlurmSettings) || len(want) == 0 {
		return nil
	}

	return merged
}
