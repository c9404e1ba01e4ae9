package awssim

import (
	"encoding/base64"
	"maps"
	"reflect"
)

// launchData are the parameters of a launch template, and of RunInstances beyond its own parameters. One type reads
// the request and writes the answer. Rest, here and below, are parameters that are only given back.
type launchData struct {
	ImageId                          string
	InstanceType                     string
	KeyName                          string
	UserData                         string
	DisableApiTermination            *bool
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
	Rest               object
}

type marketOptions struct {
	MarketType string
	Rest       object
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
	Rest           object
}

type metadataOptions struct {
	HttpEndpoint         string
	InstanceMetadataTags string
	Rest                 object
}

type blockDevice struct {
	DeviceName string
	Ebs        *ebsDevice
	Rest       object
}

type ebsDevice struct {
	DeleteOnTermination *bool
	Encrypted           *bool
	KmsKeyId            string
	SnapshotId          string
	VolumeSize          *int
	VolumeType          string
	Rest                object
}

type networkInterface struct {
	AssociatePublicIpAddress *bool
	DeviceIndex              *int
	Groups                   []string
	InterfaceType            string
	NetworkCardIndex         *int
	NetworkInterfaceId       string
	PrivateIpAddress         string
	SubnetId                 string
	Rest                     object
}

// override returns d with every parameter that over gives; EC2 replaces a parameter of the launch
// template whole, structures included.
func (d launchData) override(over launchData) launchData {
	to, from := reflect.ValueOf(&d).Elem(), reflect.ValueOf(over)
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

// target is the reservation, or the resource group, that the launch names.
func (d launchData) target() reservationTarget {
	if d.CapacityReservationSpecification == nil || d.CapacityReservationSpecification.CapacityReservationTarget == nil {
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
	target, preference := d.target(), d.preference()
	switch {
	case target.CapacityReservationId != "" && target.CapacityReservationResourceGroupArn != "":
		return apiErrorf("InvalidParameterCombination", "You can specify either a Capacity Reservation ID or a resource group ARN, but not both")
	case target != (reservationTarget{}) && preference != "" && preference != "capacity-reservations-only":
		return apiErrorf("InvalidParameterCombination",
			"CapacityReservationTarget and CapacityReservationPreference can be specified together only if the preference is capacity-reservations-only")
	}
	switch preference {
	case "", "open", "none", "capacity-reservations-only":
	default:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter CapacityReservationPreference is invalid.", preference)
	}
	switch d.marketType() {
	case "", "spot", "capacity-block", "interruptible-capacity-reservation", "on-demand":
	default:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter MarketType is invalid.", d.marketType())
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
