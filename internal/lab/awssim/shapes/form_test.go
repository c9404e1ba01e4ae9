package shapes

import (
	"net/url"
	"testing"
)

func TestCheckForm(t *testing.T) {
	const launch = "MinCount=1&MaxCount=1&ImageId=ami-1&InstanceType=z9.huge&" +
		"NetworkInterface.1.SubnetId=subnet-1&NetworkInterface.1.SecurityGroupId.1=sg-1"
	for _, test := range []struct {
		name, service, operation, form string
		want                           []string // violations, in order
	}{
		{"good", "ec2", "RunInstances", "Action=RunInstances&Version=2016-11-15&DryRun=true&" + launch, nil},
		{
			"every violation is told", "ec2", "RunInstances",
			"MinCount=one&NetworkInterfaces.1.SubnetId=subnet-1&InstanceMarketOptions.MarketType=block&ImageId=ami-1&ImageId=ami-2&" +
				"TagSpecification.1.Tag.2.Key=k&DisableApiTermination=yes&CapacityReservationSpecification=cr-1&Ipv6Address=x&BlockDeviceMapping.1.Ebs.VolumeSize.GiB=1",
			[]string{
				"BlockDeviceMapping.1.Ebs.VolumeSize.GiB: is below a value of type integer",
				"CapacityReservationSpecification: is the structure CapacityReservationSpecification and has no value",
				`DisableApiTermination: "yes" is not true or false`,
				"ImageId: appears 2 times",
				`InstanceMarketOptions.MarketType: "block" is not a value of MarketType`,
				"Ipv6Address: is a list and has no value",
				`MinCount: "one" is not of type integer`,
				"NetworkInterfaces.1.SubnetId: unknown member of RunInstancesRequest",
				"TagSpecification.1.Tag.2.Key: is not one of the 1 items of the list",
				"MaxCount: required member of RunInstancesRequest is missing",
			},
		},
		{
			"a name of requests alone", "ec2", "RunInstances", launch +
				"&NetworkInterface.1.Ipv6Addresses.1.Ipv6Address=fd00::1&NetworkInterface.1.Ipv6AddressesSet.1.Ipv6Address=fd00::1",
			[]string{
				"NetworkInterface.1.Ipv6AddressesSet.1.Ipv6Address: unknown member of " +
					"InstanceNetworkInterfaceSpecification",
			},
		},
		{
			"required in a list", "ec2", "RunInstances", launch + "&ElasticInferenceAccelerator.1.Count=1",
			[]string{"ElasticInferenceAccelerator.1.Type: required member of ElasticInferenceAccelerator is missing"},
		},
		{
			"timestamps", "ec2", "CreateCapacityReservation",
			"InstanceType=p5.48xlarge&InstancePlatform=Linux/UNIX&InstanceCount=1&EndDate=2026-11-21T11:30:00Z&StartDate=1795260600",
			[]string{`StartDate: "1795260600" is not a timestamp like 2006-01-02T15:04:05.000Z`},
		},
		{
			"nothing to say", "sts", "GetCallerIdentity", "Action=GetCallerIdentity&Version=2011-06-15&Account=1",
			[]string{"Account: unknown member of GetCallerIdentityRequest"},
		},
		{
			"operation not recorded",
			"ec2",
			"Nonsense",
			"",
			[]string{"the operation is not in the record of shapes: add it to shapes.py and run that"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			form, err := url.ParseQuery(test.form)
			if err != nil {
				t.Fatal(err)
			}

			_, err = CheckForm(test.service, test.operation, form)
			compareViolations(t, err, test.want)
		})
	}
}
