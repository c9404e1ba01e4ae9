package awssim

import (
	"encoding/base64"
	"maps"
	"reflect"
)

// launchData are the parameters of a launch template, and of RunInstances beyond its own parameters. One type reads
// the request (form tags) and writes the answer (xml tags).
type launchData struct {
	ImageId                           string                 `xml:"imageId,omitempty"`
	InstanceType                      string                 `xml:"instanceType,omitempty"`
	KeyName                           string                 `xml:"keyName,omitempty"`
	UserData                          string                 `xml:"userData,omitempty"`
	KernelId                          string                 `xml:"kernelId,omitempty"`
	EbsOptimized                      *bool                  `xml:"ebsOptimized,omitempty"`
	DisableApiTermination             *bool                  `xml:"disableApiTermination,omitempty"`
	DisableApiStop                    *bool                  `xml:"disableApiStop,omitempty"`
	InstanceInitiatedShutdownBehavior string                 `xml:"instanceInitiatedShutdownBehavior,omitempty"`
	IamInstanceProfile                *instanceProfile       `xml:"iamInstanceProfile,omitempty"`
	Monitoring                        *enabledOption         `xml:"monitoring,omitempty"`
	Placement                         *placement             `xml:"placement,omitempty"`
	InstanceMarketOptions             *marketOptions         `xml:"instanceMarketOptions,omitempty"`
	CapacityReservationSpecification  *reservationSpec       `xml:"capacityReservationSpecification,omitempty"`
	CpuOptions                        *cpuOptions            `xml:"cpuOptions,omitempty"`
	CreditSpecification               *creditSpecification   `xml:"creditSpecification,omitempty"`
	EnclaveOptions                    *enabledOption         `xml:"enclaveOptions,omitempty"`
	HibernationOptions                *hibernationOptions    `xml:"hibernationOptions,omitempty"`
	MetadataOptions                   *metadataOptions       `xml:"metadataOptions,omitempty"`
	MaintenanceOptions                *maintenanceOptions    `xml:"maintenanceOptions,omitempty"`
	NetworkPerformanceOptions         *networkPerformance    `xml:"networkPerformanceOptions,omitempty"`
	PrivateDnsNameOptions             *privateDNSOptions     `xml:"privateDnsNameOptions,omitempty"`
	BlockDeviceMappings               []blockDevice          `form:"BlockDeviceMapping" xml:"blockDeviceMappingSet>item"`
	NetworkInterfaces                 []networkInterface     `form:"NetworkInterface" xml:"networkInterfaceSet>item"`
	SecurityGroupIds                  []string               `form:"SecurityGroupId" xml:"securityGroupIdSet>item"`
	SecurityGroups                    []string               `form:"SecurityGroup" xml:"securityGroupSet>item"`
	LicenseSpecifications             []licenseSpecification `form:"LicenseSpecification" xml:"licenseSet>item"`
}

type instanceProfile struct {
	Arn  string `xml:"arn,omitempty"`
	Name string `xml:"name,omitempty"`
}

type enabledOption struct {
	Enabled bool `xml:"enabled"`
}

type hibernationOptions struct {
	Configured bool `xml:"configured"`
}

type maintenanceOptions struct {
	AutoRecovery string `xml:"autoRecovery,omitempty"`
}

type networkPerformance struct {
	BandwidthWeighting string `xml:"bandwidthWeighting,omitempty"`
}

type creditSpecification struct {
	CpuCredits string `xml:"cpuCredits,omitempty"`
}

type licenseSpecification struct {
	LicenseConfigurationArn string `xml:"licenseConfigurationArn,omitempty"`
}

type placement struct {
	Affinity             string `xml:"affinity,omitempty"`
	AvailabilityZone     string `xml:"availabilityZone,omitempty"`
	AvailabilityZoneId   string `xml:"availabilityZoneId,omitempty"`
	GroupId              string `xml:"groupId,omitempty"`
	GroupName            string `xml:"groupName,omitempty"`
	HostId               string `xml:"hostId,omitempty"`
	HostResourceGroupArn string `xml:"hostResourceGroupArn,omitempty"`
	PartitionNumber      *int   `xml:"partitionNumber,omitempty"`
	SpreadDomain         string `xml:"spreadDomain,omitempty"`
	Tenancy              string `xml:"tenancy,omitempty"`
}

type marketOptions struct {
	MarketType  string       `xml:"marketType,omitempty"`
	SpotOptions *spotOptions `xml:"spotOptions,omitempty"`
}

type spotOptions struct {
	MaxPrice                     string `xml:"maxPrice,omitempty"`
	SpotInstanceType             string `xml:"spotInstanceType,omitempty"`
	InstanceInterruptionBehavior string `xml:"instanceInterruptionBehavior,omitempty"`
}

type reservationSpec struct {
	CapacityReservationPreference string             `xml:"capacityReservationPreference,omitempty"`
	CapacityReservationTarget     *reservationTarget `xml:"capacityReservationTarget,omitempty"`
}

type reservationTarget struct {
	CapacityReservationId               string `xml:"capacityReservationId,omitempty"`
	CapacityReservationResourceGroupArn string `xml:"capacityReservationResourceGroupArn,omitempty"`
}

type cpuOptions struct {
	CoreCount            *int   `xml:"coreCount,omitempty"`
	ThreadsPerCore       *int   `xml:"threadsPerCore,omitempty"`
	AmdSevSnp            string `xml:"amdSevSnp,omitempty"`
	NestedVirtualization string `xml:"nestedVirtualization,omitempty"`
}

type metadataOptions struct {
	HttpTokens              string `xml:"httpTokens,omitempty"`
	HttpPutResponseHopLimit *int   `xml:"httpPutResponseHopLimit,omitempty"`
	HttpEndpoint            string `xml:"httpEndpoint,omitempty"`
	HttpProtocolIpv6        string `xml:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `xml:"instanceMetadataTags,omitempty"`
}

type privateDNSOptions struct {
	HostnameType                    string `xml:"hostnameType,omitempty"`
	EnableResourceNameDnsARecord    *bool  `xml:"enableResourceNameDnsARecord,omitempty"`
	EnableResourceNameDnsAAAARecord *bool  `xml:"enableResourceNameDnsAAAARecord,omitempty"`
}

type blockDevice struct {
	DeviceName  string     `xml:"deviceName,omitempty"`
	VirtualName string     `xml:"virtualName,omitempty"`
	Ebs         *ebsDevice `xml:"ebs,omitempty"`
	NoDevice    string     `xml:"noDevice,omitempty"`
}

type ebsDevice struct {
	Encrypted           *bool  `xml:"encrypted,omitempty"`
	DeleteOnTermination *bool  `xml:"deleteOnTermination,omitempty"`
	Iops                *int   `xml:"iops,omitempty"`
	KmsKeyId            string `xml:"kmsKeyId,omitempty"`
	SnapshotId          string `xml:"snapshotId,omitempty"`
	VolumeSize          *int   `xml:"volumeSize,omitempty"`
	VolumeType          string `xml:"volumeType,omitempty"`
	Throughput          *int   `xml:"throughput,omitempty"`
}

type networkInterface struct {
	AssociateCarrierIpAddress      *bool    `xml:"associateCarrierIpAddress,omitempty"`
	AssociatePublicIpAddress       *bool    `xml:"associatePublicIpAddress,omitempty"`
	DeleteOnTermination            *bool    `xml:"deleteOnTermination,omitempty"`
	Description                    string   `xml:"description,omitempty"`
	DeviceIndex                    *int     `xml:"deviceIndex,omitempty"`
	Groups                         []string `form:"SecurityGroupId" xml:"groupSet>groupId"`
	InterfaceType                  string   `xml:"interfaceType,omitempty"`
	NetworkInterfaceId             string   `xml:"networkInterfaceId,omitempty"`
	PrivateIpAddress               string   `xml:"privateIpAddress,omitempty"`
	SecondaryPrivateIpAddressCount *int     `xml:"secondaryPrivateIpAddressCount,omitempty"`
	SubnetId                       string   `xml:"subnetId,omitempty"`
	NetworkCardIndex               *int     `xml:"networkCardIndex,omitempty"`
	EnaQueueCount                  *int     `xml:"enaQueueCount,omitempty"`
	Ipv6AddressCount               *int     `xml:"ipv6AddressCount,omitempty"`
	PrimaryIpv6                    *bool    `xml:"primaryIpv6,omitempty"`
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
