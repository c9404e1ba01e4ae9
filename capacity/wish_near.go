package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// wishKeys are the keys of a comment that parseWish reads.
var wishKeys = []string{"capacity_reservation_id", "instance_type", "subnet_id", "on_end", "capacity"}

// nearKeys returns a sentence for each word of a comment that was probably meant for us but is none of our keys:
// Capacity_Reservation_Id=…, capacity_reservation=…, id=cr-…, or a key without a value ("on_end requeue"; not
// "capacity", a common word). Such a word has no effect, and its author should know.
func nearKeys(comment string) []string {
	var warnings []string
	for _, word := range wishWords(comment) {
		key, value, ok := strings.Cut(word, "=")
		if known := strings.ToLower(word); !ok && strings.Contains(word, "_") && slices.Contains(wishKeys, known) {
			warnings = append(warnings,
				fmt.Sprintf("%s in --comment has no value and changes nothing; write %s=… as one word, without spaces",
					word, known))
		}
		if !ok || key == "" {
			continue
		}
		if meant := nearKey(key, value); meant != "" && meant != key {
			warnings = append(warnings,
				fmt.Sprintf("%s= in --comment is no key of pcs-capacity and changes nothing; did you mean %s=?", clip(key), meant))
		}
	}
	return warnings
}

// nearKey is our key that a word probably meant; "" if none.
func nearKey(key, value string) string {
	switch {
	case reservationID().MatchString(value):
		return "capacity_reservation_id"
	case subnetID().MatchString(value):
		return "subnet_id"
	}
	written := bare(key)
	for _, known := range wishKeys {
		// A fifth of the letters may be wrong or missing: that covers capacity_reservation, and keeps "capability" apart
		// from "capacity", and "subnet" from "subnet_id".
		if EditDistance(written, bare(known)) <= len(bare(known))/5 {
			return known
		}
	}
	return ""
}

// bare is a key in lower case without separators.
func bare(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// EditDistance counts the letters (bytes) to change, add or remove to turn a into b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
