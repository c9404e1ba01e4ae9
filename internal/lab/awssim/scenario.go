package awssim

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

//go:embed scenarios/default.toml
var defaultTOML []byte

//go:embed scenarios/lab.toml
var labTOML []byte

//go:embed scenarios/plain.toml
var plainTOML []byte

// Scenario is the world at the start of a simulation, written as TOML.
type Scenario struct {
	Account string `toml:"account"` // twelve digits; the account of the caller
	Home    string `toml:"home"`    // the region that Sim.Env names; default: the first one

	ReclaimLead      Duration `toml:"reclaim_lead"`       // how long before its end EC2 begins to take back a block; 30m
	PaymentDelay     Duration `toml:"payment_delay"`      // from purchase to payment
	FailPayments     bool     `toml:"fail_payments"`      // every payment fails
	BootDelay        Duration `toml:"boot_delay"`         // how long an instance stays pending
	ShutdownDelay    Duration `toml:"shutdown_delay"`     // how long it stays shutting-down
	CleanupDelay     Duration `toml:"cleanup_delay"`      // from terminated until its place in a reservation is free
	PCSDelay         Duration `toml:"pcs_delay"`          // how long PCS takes to create, update or delete
	ScheduledCount   bool     `toml:"scheduled_count"`    // a block that is not open yet reports its size; EC2 may report 0
	HideLaunchStatus bool     `toml:"hide_launch_status"` // reservations of UltraServers report no launch status
	Throttle         bool     `toml:"throttle"`           // EC2's limits of launches, and of the calls around offerings
	NewOfferingIDs   bool     `toml:"new_offering_ids"`   // every search shows the blocks for sale under other ids
	OfferingIDsLast  Duration `toml:"offering_ids_last"`  // how long an id that was shown can be bought; default: as long as the block is for sale
	PageSize         int      `toml:"page_size"`          // EC2 and PCS put no more on a page, and nothing on the first one; default: as many as are asked for
	ClockOffset      Duration `toml:"clock_offset"`       // how far its clock is before the one that it was given, such as the machine's

	InstanceProfiles []string `toml:"instance_profiles"` // ARNs of those that launch templates and node groups of it do not have

	Lag           Lag                    `toml:"lag"`
	InstanceTypes []InstanceTypeScenario `toml:"instance_type"`

	Regions []RegionScenario `toml:"region"`
}

// InstanceTypeScenario is one instance type, the same in every region that has capacity of it.
type InstanceTypeScenario struct {
	Name           string   `toml:"name"`
	VCPUs          int      `toml:"vcpus"`
	ThreadsPerCore int      `toml:"threads_per_core"` // default 2
	MemoryMiB      int64    `toml:"memory_mib"`
	GPUs           int      `toml:"gpus"`
	GPUName        string   `toml:"gpu_name"`
	GPUMemoryMiB   int      `toml:"gpu_memory_mib"` // of one GPU
	NeuronDevices  int      `toml:"neuron_devices"`
	NeuronName     string   `toml:"neuron_name"`
	Architecture   string   `toml:"architecture"`  // default x86_64
	UsageClasses   []string `toml:"usage_classes"` // default on-demand and spot
	CardTypes      bool     `toml:"card_types"`    // DescribeInstanceTypes says which interfaces each network card takes
	Price          float64  `toml:"price"`         // USD per hour on demand
}

// RegionScenario is one region.
type RegionScenario struct {
	Name  string `toml:"name"`
	OptIn string `toml:"opt_in"` // opt-in-not-required (default), opted-in, not-opted-in
	Limits
	MetadataTags    bool                     `toml:"metadata_tags"` // the account's default: instances find their tags in their metadata
	Zones           []ZoneScenario           `toml:"zone"`
	VPCs            []VPCScenario            `toml:"vpc"`
	Subnets         []SubnetScenario         `toml:"subnet"`
	SecurityGroups  []SecurityGroupScenario  `toml:"security_group"`
	Images          []ImageScenario          `toml:"image"`
	KeyPairs        []string                 `toml:"key_pairs"`
	PlacementGroups []string                 `toml:"placement_groups"`
	Capacity        []CapacityScenario       `toml:"capacity"`
	Offerings       []OfferingScenario       `toml:"offering"`
	Reservations    []ReservationScenario    `toml:"reservation"`
	LaunchTemplates []LaunchTemplateScenario `toml:"launch_template"`
	Clusters        []ClusterScenario        `toml:"cluster"`
}

// ZoneScenario is one Availability Zone or Local Zone.
type ZoneScenario struct {
	Name  string `toml:"name"`
	ID    string `toml:"id"`
	Type  string `toml:"type"`   // availability-zone (default), local-zone
	OptIn string `toml:"opt_in"` // opt-in-not-required (default), opted-in, not-opted-in
}

// VPCScenario is one VPC.
type VPCScenario struct {
	ID       string `toml:"id"`
	CIDR     string `toml:"cidr"`
	Isolated bool   `toml:"isolated"` // without a way to the internet
}

// SubnetScenario is one subnet; its zone is named by name.
type SubnetScenario struct {
	ID   string            `toml:"id"`
	VPC  string            `toml:"vpc"`
	Zone string            `toml:"zone"`
	CIDR string            `toml:"cidr"`
	Tags map[string]string `toml:"tags"`
}

// SecurityGroupScenario is one security group.
type SecurityGroupScenario struct {
	ID   string            `toml:"id"`
	Name string            `toml:"name"`
	VPC  string            `toml:"vpc"`
	Tags map[string]string `toml:"tags"`
	// Closed: its rules do not let all through between its members, as AWS PCS documents it for EFA.
	Closed bool `toml:"closed"`
}

// ImageScenario is one AMI.
type ImageScenario struct {
	ID           string            `toml:"id"`
	Name         string            `toml:"name"`
	Architecture string            `toml:"architecture"` // default x86_64
	Platform     string            `toml:"platform"`     // as DescribeImages shows it in PlatformDetails; default Linux/UNIX
	Description  string            `toml:"description"`
	Owner        string            `toml:"owner"`      // default: the caller's account; amazon: one of AWS's, by its alias
	Created      string            `toml:"created"`    // date; default 2026-10-01
	Deprecated   string            `toml:"deprecated"` // date
	Parameter    string            `toml:"parameter"`  // of AWS Systems Manager, which names it: GetParameter, resolve:ssm:PARAMETER
	RootGiB      int               `toml:"root_gib"`   // size of the snapshot that its root volume is made from; default 8
	Tags         map[string]string `toml:"tags"`
}

// CapacityScenario is EC2's capacity of one type in one zone, for launches and for reservations.
type CapacityScenario struct {
	Zone  string `toml:"zone"`
	Type  string `toml:"type"`
	Count int    `toml:"count"`
}

// OfferingScenario makes offerings of Capacity Blocks.
type OfferingScenario struct {
	Zone        string  `toml:"zone"`
	Type        string  `toml:"type"`
	UltraServer string  `toml:"ultraserver"` // type, such as u-trn2u-x64; MaxCount then counts UltraServers
	PerServer   int     `toml:"per_server"`  // instances in one UltraServer
	MaxCount    int     `toml:"max_count"`   // the largest block
	Stock       int     `toml:"stock"`       // what is there in all; 0: no limit
	Price       float64 `toml:"price"`       // per instance and hour
	Currency    string  `toml:"currency"`    // of the price; default USD

	StartDays []int `toml:"start_days"` // lists days after today; those blocks start and end at 11:30 UTC
	MaxDays   int   `toml:"max_days"`   // bounds the asked duration; default 182
	Instant   bool  `toml:"instant"`    // adds a block that starts in about 30 minutes and ends at an 11:30 UTC
	// StartsIn and Lasts make one short block instead, counted from the purchase. It answers every asked duration.
	StartsIn Duration `toml:"starts_in"`
	Lasts    Duration `toml:"lasts"`
}

// ReservationScenario is a reservation that is there at the start: a block or an ODCR.
type ReservationScenario struct {
	ID             string            `toml:"id"`
	Kind           string            `toml:"kind"` // odcr (default), capacity-block, interruptible-odcr
	Type           string            `toml:"type"`
	Zone           string            `toml:"zone"`
	Count          int               `toml:"count"`
	Start          Moment            `toml:"start"`
	End            Moment            `toml:"end"`
	State          string            `toml:"state"`           // overrides the state by the dates, such as payment-failed
	Platform       string            `toml:"platform"`        // default Linux/UNIX
	Tenancy        string            `toml:"tenancy"`         // default default
	Match          string            `toml:"match"`           // open, targeted (default)
	PlacementGroup string            `toml:"placement_group"` // the cluster placement group that an ODCR was made in
	UltraServer    string            `toml:"ultraserver"`
	Committed      Moment            `toml:"committed"`       // of a future-dated ODCR: the end of its commitment
	Owner          string            `toml:"owner"`           // another account, which shares it with the caller
	OwnerZoneName  string            `toml:"owner_zone_name"` // the owner's name of the zone
	Tags           map[string]string `toml:"tags"`
}

// LaunchTemplateScenario is a launch template with one version.
type LaunchTemplateScenario struct {
	ID              string            `toml:"id"`
	Name            string            `toml:"name"`
	Image           string            `toml:"image"`
	Type            string            `toml:"type"`
	SecurityGroups  []string          `toml:"security_groups"`
	KeyName         string            `toml:"key_name"`
	PlacementGroup  string            `toml:"placement_group"`
	InstanceProfile string            `toml:"instance_profile"` // ARN
	UserData        string            `toml:"user_data"`        // plain text
	Tags            map[string]string `toml:"tags"`
	RootGiB         int               `toml:"root_gib"`      // size of the root volume; 0: not in the template
	MetadataTags    bool              `toml:"metadata_tags"` // instances find their tags in their metadata
	InstanceTags    map[string]string `toml:"instance_tags"` // TagSpecifications of instances
}

// ClusterScenario is a PCS cluster.
type ClusterScenario struct {
	ID             string              `toml:"id"`
	Name           string              `toml:"name"`
	Size           string              `toml:"size"`          // SMALL, MEDIUM, LARGE
	SlurmVersion   string              `toml:"slurm_version"` // such as 25.05
	Status         string              `toml:"status"`        // default ACTIVE
	Subnets        []string            `toml:"subnets"`
	SecurityGroups []string            `toml:"security_groups"`
	Tags           map[string]string   `toml:"tags"`
	NodeGroups     []NodeGroupScenario `toml:"node_group"`
	Queues         []QueueScenario     `toml:"queue"`
}

// NodeGroupScenario is a PCS compute node group.
type NodeGroupScenario struct {
	ID              string            `toml:"id"`
	Name            string            `toml:"name"`
	Type            string            `toml:"type"`
	PurchaseOption  string            `toml:"purchase_option"` // default ONDEMAND
	Image           string            `toml:"image"`
	InstanceProfile string            `toml:"instance_profile"` // ARN
	LaunchTemplate  string            `toml:"launch_template"`  // id
	Version         string            `toml:"version"`          // of the launch template; default 1
	Subnets         []string          `toml:"subnets"`
	Min             int               `toml:"min"`
	Max             int               `toml:"max"`
	Tags            map[string]string `toml:"tags"`
}

// QueueScenario is a PCS queue; its node groups are named by name.
type QueueScenario struct {
	ID         string            `toml:"id"`
	Name       string            `toml:"name"`
	NodeGroups []string          `toml:"node_groups"`
	Tags       map[string]string `toml:"tags"`
}

// DefaultScenario returns a scenario for tests and newcomers: several regions, blocks that end at 11:30 UTC,
// ODCRs, and the PCS cluster "ml". It is the embedded scenarios/default.toml.
func DefaultScenario() *Scenario { return mustParse("scenarios/default.toml", defaultTOML) }

// LabScenario returns a scenario for a Slurm on the same machine: subnets inside 127/8 and short blocks near
// now. It is the embedded scenarios/lab.toml.
func LabScenario() *Scenario { return mustParse("scenarios/lab.toml", labTOML) }

// PlainScenario returns the account of the quick start on Slurm. It is the embedded scenarios/plain.toml.
func PlainScenario() *Scenario { return mustParse("scenarios/plain.toml", plainTOML) }

// LoadScenario reads a scenario file.
func LoadScenario(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading scenario: %w", err)
	}

	return ParseScenario(path, data)
}

// ParseScenario reads a scenario; name stands for the file in errors. An unknown key is an error.
func ParseScenario(name string, data []byte) (*Scenario, error) {
	var sc Scenario

	md, err := toml.NewDecoder(bytes.NewReader(data)).Decode(&sc)
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return nil, fmt.Errorf("%s: %s", name, pe.ErrorWithPosition())
		}

		return nil, fmt.Errorf("%s: %w", name, err)
	}

	if unknown := md.Undecoded(); len(unknown) > 0 {
		names := make([]string, len(unknown))
		for i, k := range unknown {
			names[i] = k.String()
		}

		slices.Sort(names)

		return nil, fmt.Errorf("%s: unknown key %s", name, strings.Join(slices.Compact(names), ", "))
	}

	return &sc, nil
}

func mustParse(name string, data []byte) *Scenario {
	sc, err := ParseScenario(name, data)
	if err != nil {
		panic(err) // embedded and covered by a test
	}

	return sc
}
