package ec2

// reservationPlatforms are the words of a reservation for what an AMI runs, by those of an
// AMI, where the two differ: EC2 User Guide, "AMI billing information fields"; EC2 API
// Reference, CreateCapacityReservation. EC2 has none for "Windows BYOL".
var reservationPlatforms = map[string]string{
	"Red Hat BYOL Linux":               "Linux/UNIX", // the licence is not EC2's
	"Red Hat Enterprise Linux with HA": "RHEL with HA",

	"Red Hat Enterprise Linux with SQL Server Standard":          "RHEL with SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise":        "RHEL with SQL Server Enterprise",
	"Red Hat Enterprise Linux with SQL Server Web":               "RHEL with SQL Server Web",
	"Red Hat Enterprise Linux with SQL Server Standard and HA":   "RHEL with HA and SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise and HA": "RHEL with HA and SQL Server Enterprise",

	"SQL Server Standard":   "Linux with SQL Server Standard",
	"SQL Server Enterprise": "Linux with SQL Server Enterprise",
	"SQL Server Web":        "Linux with SQL Server Web",
}

// reservationPlatform is what an AMI runs, in the words of a reservation: most are the
// same.
func reservationPlatform(details string) string {
	if name, ok := reservationPlatforms[details]; ok {
		return name
	}
	return details
}
