package capacity

import (
	"regexp"
	"sync"
)

// Regular expressions are compiled on first use. The submit filter starts at each submission that Lua does not
// decide, and compiling them all would take a tenth of its time.
//
// EC2 ids are a prefix and 8 or 17 hexadecimal digits; offering ids have other letters as well.
var (
	reservationID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^cr-[0-9a-f]{8,17}$`) })
	subnetID      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`) })
	offeringID    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^cb-[0-9A-Za-z]+$`) })
	instanceType  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`) })
)

// IsReservationID reports whether the text can be the id of a capacity reservation.
func IsReservationID(text string) bool { return reservationID().MatchString(text) }

// IsSubnetID reports whether the text can be the id of a subnet.
func IsSubnetID(text string) bool { return subnetID().MatchString(text) }

// IsOfferingID reports whether the text can be the id of a Capacity Block offering.
func IsOfferingID(text string) bool { return offeringID().MatchString(text) }

// IsInstanceType reports whether the text can be an instance type, such as p5.48xlarge.
func IsInstanceType(text string) bool { return instanceType().MatchString(text) }
