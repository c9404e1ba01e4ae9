package capacity

import "regexp"

// EC2 ids are a prefix and 8 or 17 hexadecimal digits; those of offerings have other
// letters as well.
var (
	reservationID = regexp.MustCompile(`^cr-[0-9a-f]{8,17}$`)
	subnetID      = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
	offeringID    = regexp.MustCompile(`^cb-[0-9A-Za-z]+$`)
	instanceType  = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
)

// IsReservationID reports whether the text can be the id of a capacity reservation.
func IsReservationID(text string) bool { return reservationID.MatchString(text) }

// IsSubnetID reports whether the text can be the id of a subnet.
func IsSubnetID(text string) bool { return subnetID.MatchString(text) }

// IsOfferingID reports whether the text can be the id of a Capacity Block offering.
func IsOfferingID(text string) bool { return offeringID.MatchString(text) }

// IsInstanceType reports whether the text can be an instance type, such as p5.48xlarge.
func IsInstanceType(text string) bool { return instanceType.MatchString(text) }
