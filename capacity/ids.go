package capacity

import "regexp"

var offeringID = regexp.MustCompile(`^cb-[0-9A-Za-z]+$`)

// IsReservationID reports whether s can be the id of a reservation, such as
// cr-0123456789abcdef0.
func IsReservationID(s string) bool { return reservationID.MatchString(s) }

// IsOfferingID reports whether s can be the id of a block for sale, such as
// cb-0123456789abcdef0.
func IsOfferingID(s string) bool { return offeringID.MatchString(s) }
