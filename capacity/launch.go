package capacity

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// The instance families that EC2 sells as Capacity Blocks, in instances and in UltraServers only: AWS documents which,
// and no API tells everybody. EC2 User Guide, "Capacity Blocks".
var (
	blockFamilies = []string{"p6-b300", "p6-b200", "p5en", "p5e", "p5", "p4d", "p4de", "trn1", "trn2"}
	ultraFamilies = []string{"trn2u", "p6e-gb200", "p6e-gb300"}
)

// OnlyInUltraServers reports whether an instance type exists in UltraServers only. known is false for a family that
// is new: EC2 has to say what a block of it is.
func OnlyInUltraServers(instanceType string) (only, known bool) {
	name, _, _ := strings.Cut(instanceType, ".")
	only = slices.Contains(ultraFamilies, name)

	return only, only || slices.Contains(blockFamilies, name)
}

// Launch describes one RunInstances call for Count instances. If there is less room, EC2 launches none.
type Launch struct {
	// ClientToken makes a repeated request the same launch; at most 64 characters. EC2 binds it to the request: see
	// ErrTokenUsed.
	ClientToken    string
	LaunchTemplate string // an id or a name, with ":VERSION" unless the default version is meant
	InstanceType   string
	SubnetID       string
	// ReservationID is where the instances go; "" with Kind OnDemand.
	ReservationID  string
	Kind           Kind
	Fresh          bool              // the reservation was created just now, so parts of EC2 may not know it yet
	PlacementGroup string            // the reservation's placement group; "" leaves the choice to the launch template
	Count          int               // the number of instances
	Tags           map[string]string // written on the instances and their volumes
}

// ErrTokenUsed: EC2 refused a launch, or an ODCR, only for its ClientToken. Either the instances of the launch that
// used the token have terminated, or that launch, which may have failed, asked for something else. Another token may
// succeed.
var ErrTokenUsed = errors.New("the client token belongs to another launch")

// ErrNoRoom: EC2 refused a launch, or an ODCR, for lack of room: the reservation is full or not open, or the subnet
// has no free address. Another subnet or reservation may have room.
var ErrNoRoom = errors.New("there is no room for the launch")

// Instance is an EC2 instance.
type Instance struct {
	ID            string
	PrivateIP     string
	Type          string // the instance type
	SubnetID      string
	ReservationID string    // the reservation that the instance runs in; "" if none
	BlockID       string    // the Capacity Block: of UltraServers, the one that it is in; "" if none
	State         string    // EC2's state, verbatim
	LaunchIndex   int       // its number among the instances of one launch, from 0 (AmiLaunchIndex)
	Launched      time.Time // the launch time, in whole seconds of AWS's time
	Tags          map[string]string
}

// DivideNodes returns the nodes of a reservation by its UltraServers, each of which is a Capacity Block. in has the
// Capacity Blocks of nodes that run; the others fill the UltraServers in order.
func DivideNodes(nodes, blockIDs []string, in map[string]string) map[string][]string {
	divided := map[string][]string{}
	room := (len(nodes) + len(blockIDs) - 1) / len(blockIDs)

	var others []string
	for _, node := range nodes {
		if id := in[node]; slices.Contains(blockIDs, id) {
			divided[id] = append(divided[id], node)
		} else {
			others = append(others, node)
		}
	}

	for _, id := range blockIDs {
		more := min(max(room-len(divided[id]), 0), len(others))
		divided[id] = append(divided[id], others[:more]...)
		others = others[more:]
	}

	return divided
}

// InstanceIDs returns the ids of instances.
func InstanceIDs(instances []Instance) (ids []string) {
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return ids
}

// Ended reports whether the instance is terminating or terminated.
func (i Instance) Ended() bool { return i.State == "shutting-down" || i.State == "terminated" }

// Node returns the Slurm node that one of our instances was launched for; "" if its tags do not say.
func (i Instance) Node() string { return WithNodes([]Instance{i})[0].Tags[TagNode] }

// InstanceQuery selects instances that have not been terminated and that match every field set. At least one must be
// set.
type InstanceQuery struct {
	IDs         []string
	Tags        map[string][]string // for each key one of the values, at most 200; none selects nothing
	ClusterName string              // the self-managed clusters whose marks have this name
	Reservation string              // the reservation that they run in, no matter who launched them
}

// WithNodes adds the node's tag to each instance whose tags name a node: in a launch of several, LaunchIndex selects
// it. It expands the hostlist of a launch once, not once for each instance.
func WithNodes(instances []Instance) []Instance {
	named := slices.Clone(instances)
	known := map[string][]string{}
	for i, in := range named {
		list := LaunchedNodes(in.Tags)
		if in.Tags[TagNode] != "" || list == "" {
			continue
		}

		if _, read := known[list]; !read {
			known[list], _ = hostlist.Expand(list) // none of a list that cannot be read
		}

		nodes := known[list]
		if in.LaunchIndex < len(nodes) {
			named[i].Tags = maps.Clone(in.Tags)
			named[i].Tags[TagNode] = nodes[in.LaunchIndex]
		}
	}

	return named
}

// Orphan describes an instance of ours without a Slurm node: nothing uses it, nothing would end it, and it is paid for.
type Orphan struct {
	Instance    string    `json:"instance"`
	Node        string    `json:"node"`                  // the node that the instance was launched for
	Reservation string    `json:"reservation,omitempty"` // the reservation whose place it takes; "" if none
	Why         string    `json:"why"`                   // Slurm's state of the node, such as "powered down"
	Since       time.Time `json:"since"`                 // when a pass first found the instance orphaned, in AWS's time
}

// Interface is a network interface of an instance, or of a launch template.
type Interface struct {
	Card   int    `json:"card"`
	Device int    `json:"device"`
	Type   string `json:"type"` // EC2's InterfaceType: interface, efa, efa-only
}

// LaunchTemplate has the part of an EC2 launch template's version that decisions depend on.
type LaunchTemplate struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Tags    map[string]string `json:"tags,omitempty"`

	ImageID         string `json:"image_id,omitempty"`
	InstanceType    string `json:"instance_type,omitempty"`
	InstanceProfile string `json:"instance_profile,omitempty"`
	KeyName         string `json:"key_name,omitempty"`
	// SecurityGroupIDs of the template and of its network interfaces.
	SecurityGroupIDs []string `json:"security_group_ids,omitempty"`
	// Cores and ThreadsPerCore are its CpuOptions; 0 for those of the instance type.
	Cores             int         `json:"cores,omitempty"`
	ThreadsPerCore    int         `json:"threads_per_core,omitempty"`
	UserData          []byte      `json:"-"`                            // decoded, not base64
	NetworkInterfaces []Interface `json:"network_interfaces,omitempty"` // NetworkInterfaces as the template describes them

	// PublicAddress: its interface asks for a public address, or for none; nil where the subnet decides.
	PublicAddress *bool `json:"public_address,omitempty"`

	ReservationID string `json:"reservation_id,omitempty"` // the reservation that launches go to; "" if none
	// ReservationGroup is the ARN of the Capacity Reservation group that launches go to; "" if none.
	ReservationGroup string `json:"reservation_group,omitempty"`
	Market           string `json:"market,omitempty"` // EC2's MarketType: capacity-block, spot, …; "" for On-Demand
	// NoTarget: the template specifies something about reservations but no target. So it is when an id was written next
	// to CapacityReservationTarget instead of in it.
	NoTarget bool `json:"no_target,omitempty"`
	// MetadataTags: an instance sees its tags in its metadata. TokensRequired: it reads them with a token only
	// (IMDSv2).
	MetadataTags   bool   `json:"metadata_tags,omitempty"`
	TokensRequired bool   `json:"tokens_required,omitempty"`
	PlacementGroup string `json:"placement_group,omitempty"` // the name or the id of the placement group of launches
	// Digest identifies the LaunchTemplateSpec that we wrote the version from; "" if somebody else wrote it.
	Digest string `json:"digest,omitempty"`
}

// AsksConfServer reports whether the user data makes nodes fetch slurm.conf from slurmctld.
func (t LaunchTemplate) AsksConfServer() bool {
	return bytes.Contains(t.UserData, []byte("--conf-server"))
}

// installs matches the line of setup's install.sh that says what it installs.
var installs = regexp.MustCompile(`(?m)^FROM=\$\{1:-'(.*)'\}`)

// Installs returns what nodes install as they boot: cli_filter, or the URL of a package; "" if the user data says
// nothing of it.
func (t LaunchTemplate) Installs() string {
	if found := installs.FindSubmatch(t.UserData); found != nil {
		return string(found[1])
	}

	return ""
}

// EFAMode says which network interfaces instances have for EFA (Elastic Fabric Adapter).
type EFAMode string

// The modes. EFA has an IP address on each interface, as AWS PCS documents it. EFAOnly has one address, on a plain
// first interface, as EC2 recommends it.
const (
	EFA     EFAMode = "efa"
	EFAOnly EFAMode = "efa-only"
	NoEFA   EFAMode = "none"
)

// LaunchTemplateSpec describes a launch template to write. If From is set, it is a copy of From with the other fields
// laid over it; an empty field keeps the copy's value.
type LaunchTemplateSpec struct {
	Name        string
	From        string // the template to copy; "" for none
	FromVersion string

	ImageID  string
	UserData []byte
	// SecurityGroupIDs and KeyName are for a template that is no copy.
	SecurityGroupIDs []string
	KeyName          string
	// InstanceProfile is an ARN or a name. On PCS it must be "" and the copy's is dropped: PCS takes the profile from
	// the node group.
	InstanceProfile string
	MetadataTags    bool // MetadataTags shows an instance its tags in its metadata. IMDSv2 is always required.
	// InstanceType is always written. Network interfaces are copied only from a template for the same type, because
	// their number depends on the type.
	InstanceType string
	// EFA writes the type's network interfaces, whatever the copy has; "" keeps the copy's. A type without EFA gets
	// none.
	EFA EFAMode
	// SubnetID is the subnet of EFA interfaces, and of the copy's interfaces that name one; "" leaves the subnet to the
	// launch.
	SubnetID string
	// ReservationID and Kind are the target of launches; Kind OnDemand has no target.
	ReservationID string
	Kind          Kind
	// ReservationGroup is the ARN of a Capacity Reservation group. Launches go into its ODCRs only, and are refused where
	// none has room; Kind is OnDemand then.
	ReservationGroup string
	PlacementGroup   string // the name or the id of the placement group of launches; "" drops the copy's

	Tags map[string]string
}
