package awssim

import "regexp"

// burstable are the types that have CPU credits: t2, t3, t3a, t4g.
var burstable = regexp.MustCompile(`^t[0-9]`)

// checkOptions refuses options of another instance type. EC2 finds it when it launches, not when a launch template is
// made.
func (t *instanceType) checkOptions(o launchOrder) error {
	if o.CreditSpecification != nil && !burstable.MatchString(t.Name) {
		return apiErrorf("InstanceCreditSpecification.NotSupported", "The instance type %s does not support specifying CreditSpecification.", t.Name)
	}
	cpu := o.CpuOptions
	if cpu == nil {
		return nil
	}
	if n := number(cpu.CoreCount); n < 0 || n > t.VCPUs/t.ThreadsPerCore {
		return apiErrorf("InvalidParameterValue", "The core count %d is not supported for the instance type %s.", n, t.Name)
	}
	if n := number(cpu.ThreadsPerCore); n < 0 || n > t.ThreadsPerCore {
		return apiErrorf("InvalidParameterValue", "The threads per core %d is not supported for the instance type %s.", n, t.Name)
	}
	return nil
}

// checkVolumes refuses a root volume that the image does not fit into.
func (i ImageScenario) checkVolumes(devices []blockDevice) error {
	least := i.rootVolume().Ebs
	for _, d := range devices {
		if d.DeviceName == rootDevice && d.Ebs != nil && d.Ebs.VolumeSize != nil && *d.Ebs.VolumeSize < *least.VolumeSize {
			return apiErrorf("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", *d.Ebs.VolumeSize, least.SnapshotId, *least.VolumeSize)
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

// reservationPlatform is the platform of an image in the words of a reservation.
func reservationPlatform(details string) string {
	if name, ok := reservationPlatforms[details]; ok {
		return name
	}
	return details
}
