package awssim

import (
	"encoding/base64"
	"maps"
	"path"
	"reflect"
	"slices"
)

// launchData are the parameters of a launch that the simulator reads: of a launch template, and of RunInstances beyond
// its own parameters.
type launchData struct {
	ImageId                          string
	InstanceType                     string
	KeyName                          string
	UserData                         string
	IamInstanceProfile               *instanceProfile
	Placement                        *placement
	InstanceMarketOptions            *marketOptions
	CapacityReservationSpecification *reservationSpec
	CpuOptions                       *cpuOptions
	CreditSpecification              *creditSpecification
	MetadataOptions                  *metadataOptions
	BlockDeviceMappings              []blockDevice
	NetworkInterfaces                []networkInterface
	SecurityGroupIds                 []string
	SecurityGroups                   []string
}

type instanceProfile struct {
	Arn  string
	Name string
}

type creditSpecification struct {
	CpuCredits string
}

type placement struct {
	AvailabilityZone   string
	AvailabilityZoneId string
	GroupName          string
	Tenancy            string
}

type marketOptions struct {
	MarketType string
}

type reservationSpec struct {
	CapacityReservationPreference string
	CapacityReservationTarget     *reservationTarget
}

type reservationTarget struct {
	CapacityReservationId               string
	CapacityReservationResourceGroupArn string
}

type cpuOptions struct {
	CoreCount      *int
	ThreadsPerCore *int
}

type metadataOptions struct {
	HttpTokens           string // accepted, and without effect
	HttpEndpoint         string
	InstanceMetadataTags string
}

type blockDevice struct {
	DeviceName  string
	VirtualName string // accepted, and without effect
	Ebs         *ebsDevice
}

type ebsDevice struct {
	DeleteOnTermination *bool
	Encrypted           *bool
	KmsKeyId            string
	SnapshotId          string
	VolumeSize          *int
	VolumeType          string
}

type networkInterface struct {
	AssociatePublicIpAddress *bool
	DeleteOnTermination      *bool
	DeviceIndex              *int
	Groups                   []string
	InterfaceType            string
	NetworkCardIndex         *int
	SubnetId                 string
}

// override returns d with every parameter that over gives; EC2 replaces a parameter of the launch
// template whole, structures included.
func (d launchData) override(over launchData) launchData {
	to := reflect.ValueOf(&d).Elem()
	from := reflect.ValueOf(over)
	for i := range to.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}

	return d
}

func (d launchData) marketType() string {
	if d.InstanceMarketOptions == nil {
		return ""
	}
	return d.InstanceMarketOptions.MarketType
}

// target returns the reservation, or the resource group, that the launch names.
func (d launchData) target() reservationTarget {
	if d.CapacityReservationSpecification == nil ||
		d.CapacityReservationSpecification.CapacityReservationTarget == nil {
		return reservationTarget{}
	}

	return *d.CapacityReservationSpecification.CapacityReservationTarget
}

func (d launchData) preference() string {
	if d.CapacityReservationSpecification == nil {
		return ""
	}
	return d.CapacityReservationSpecification.CapacityReservationPreference
}

// check refuses parameters that EC2 refuses in templates and launches alike.
func (d launchData) check() error {
	target := d.target()
	preference := d.preference()
	switch {
	case target.CapacityReservationId != "" && target.CapacityReservationResourceGroupArn != "":
		return apiErrorf(
			"InvalidParameterCombination",
			"Specify either CapacityReservationId or CapacityReservationResourceGroupArn",
		)
	case target != (reservationTarget{}) && preference != "" && preference != "capacity-reservations-only":
		return apiErrorf(
			"InvalidParameterCombination",
			"CapacityReservationTarget and CapacityReservationPreference can be specified together only if the "+
				"preference is capacity-reservations-only",
		)
	}

	plain, err := base64.StdEncoding.DecodeString(d.UserData)
	switch {
	case err != nil:
		return apiErrorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	case len(plain) > maxUserData:
		return apiErrorf("InvalidParameterValue", "User data is limited to %d bytes", maxUserData)
	}

	return nil
}

// maxUserData is the limit of user data before it is base64-encoded (EC2 User Guide, user-data).
const maxUserData = 16 * 1024

// mergeTags lays the tags of a call over those of its launch template.
func mergeTags(template, call map[string]string) map[string]string {
	out := copyTags(template)
	maps.Copy(out, call)
	return out
}

// checkNames refuses a launch with a key pair or a placement group that is not there. EC2 looks them up when it
// launches, not when a launch template is made. Codes: EC2 API Reference, "Error codes".
func (r *region) checkNames(o launchOrder) error {
	if o.KeyName != "" && !slices.Contains(r.keyPairs, o.KeyName) {
		return apiErrorf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", o.KeyName)
	}

	if p := o.IamInstanceProfile; p != nil && p.Name != "" && !r.sim.hasProfile(p.Name) {
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
			p.Name,
		)
	}

	if p := o.IamInstanceProfile; p != nil && p.Arn != "" && !r.sim.hasProfile(p.Arn) {
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN",
			p.Arn,
		)
	}

	if p := o.Placement; p != nil && p.GroupName != "" && !slices.Contains(r.placementGroups, p.GroupName) {
		return apiErrorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", p.GroupName)
	}

	return nil
}

// hasProfile reports whether the account has an instance profile of the name or ARN: those that the scenario lists or
// uses.
func (s *Sim) hasProfile(nameOrARN string) bool {
	known := slices.Clone(s.scenario.InstanceProfiles)
	for _, r := range s.scenario.Regions {
		for _, lt := range r.LaunchTemplates {
			known = append(known, lt.InstanceProfile)
		}

		for _, cl := range r.Clusters {
			for _, g := range cl.NodeGroups {
				known = append(known, g.InstanceProfile)
			}
		}
	}

	return slices.ContainsFunc(known, func(arn string) bool {
		return arn == nameOrARN || arn != "" && path.Base(arn) == nameOrARN
	})
}

func (s *Sim) placementGroupARN(region, name string) string {
	return s.arn("ec2", region, "placement-group/"+name)
}

// checkVolumes refuses a root volume that the image does not fit into.
func (i ImageScenario) checkVolumes(devices []blockDevice) error {
	least := i.rootVolume().Ebs
	for _, d := range devices {
		if d.DeviceName == rootDevice && d.Ebs != nil && d.Ebs.VolumeSize != nil &&
			*d.Ebs.VolumeSize < *least.VolumeSize {
			return apiErrorf(
				"InvalidBlockDeviceMapping",
				"Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB",
				*d.Ebs.VolumeSize,
				least.SnapshotId,
				*least.VolumeSize,
			)
		}
	}

	return nil
}

// reservationPlatforms are the names of platforms in reservations, by what DescribeImages calls them, where the two
// differ (EC2 User Guide, "AMI billing information fields"; API Reference, CreateCapacityReservation).
var reservationPlatforms = map[string]string{
	"Red Hat BYOL Linux":                                         "Linux/UNIX",
	"Red Hat Enterprise Linux with HA":                           "RHEL with HA",
	"Red Hat Enterprise Linux with SQL Server Standard":          "RHEL with SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise":        "RHEL with SQL Server Enterprise",
	"Red Hat Enterprise Linux with SQL Server Web":               "RHEL with SQL Server Web",
	"Red Hat Enterprise Linux with SQL Server Standard and HA":   "RHEL with HA and SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise and HA": "RHEL with HA and SQL Server Enterprise",
	"SQL Server Standard":                                        "Linux with SQL Server Standard",
	"SQL Server Enterprise":                                      "Linux with SQL Server Enterprise",
	"SQL Server Web":                                             "Linux with SQL Server Web",
}

// reservationPlatform returns the platform of an image in the words of a reservation.
func reservationPlatform(details string) string {
	if name, ok := reservationPlatforms[details]; ok {
		return name
	}
	return details
}
