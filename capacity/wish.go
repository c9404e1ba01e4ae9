package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// Wish is our part of a job's --comment. A user can change it after submission, so it only selects among the
// reservations that the job's partition and account may use.
type Wish struct {
	ReservationID string
	InstanceType  string
	SubnetID      string
	Capacity      CapacityWish // Capacity says how the job's nodes may be launched
	OnEnd         OnEnd        // what happens to the job at the fence; "" leaves it to the partition
}

// Names reports whether the wish names capacity, which is checked in every partition.
func (w Wish) Names() bool { return w.ReservationID != "" || w.InstanceType != "" || w.SubnetID != "" }

// CapacityWish is the value of capacity= in a job's comment.
type CapacityWish string

// The values. Without one, or with any, the node group's settings decide.
const (
	AnyCapacity     CapacityWish = "any"
	ReuseCapacity   CapacityWish = "reuse"   // only in existing reservations
	ReserveCapacity CapacityWish = "reserve" // create an ODCR for the whole job first
)

// Known reports whether the value is one of these.
func (w CapacityWish) Known() bool {
	return w == AnyCapacity || w == ReuseCapacity || w == ReserveCapacity
}

// MaxComment is the longest comment that slurmctld takes, in bytes.
const MaxComment = 1024

// Wish reads our part of the comment. The sentences report our keys that have an impossible value or appear twice.
func (r Request) Wish() (Wish, []string) { return parseWish(r.Comment) }

// Wish is the wish in the job's comment, see [Request.Wish].
func (j Job) Wish() (Wish, []string) { return Request{Comment: j.Comment}.Wish() }

// parseWish reads the k=v words of a comment, separated by spaces or commas; it ignores other words.
func parseWish(comment string) (Wish, []string) {
	var w Wish
	var problems []string
	seen := map[string]bool{}
	for _, word := range wishWords(comment) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		problem := w.set(key, value)
		if problem == "not ours" {
			continue
		}
		if seen[key] {
			problem = fmt.Sprintf("%s is given twice in --comment; give it once", key)
		}
		seen[key] = true
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return w, problems
}

func wishWords(comment string) []string {
	return strings.FieldsFunc(comment, func(r rune) bool { return strings.ContainsRune(", \t\n\r", r) })
}

// set stores one word; it returns a sentence about a bad value, "" for a good one.
func (w *Wish) set(key, value string) string {
	matches := func(valid func(string) bool, to *string, example string) string {
		if !valid(value) {
			return fmt.Sprintf("%s=%q in --comment cannot be right; write it like %s=%s", key, clip(value), key, example)
		}
		*to = value
		return ""
	}
	switch key {
	case "capacity_reservation_id":
		return matches(IsReservationID, &w.ReservationID, "cr-0123456789abcdef0")
	case "instance_type":
		return matches(IsInstanceType, &w.InstanceType, "p5.48xlarge")
	case "subnet_id":
		return matches(IsSubnetID, &w.SubnetID, "subnet-0123456789abcdef0")
	case "on_end":
		if !OnEnd(value).Known() {
			return fmt.Sprintf(
				"on_end=%q in --comment cannot be right; write on_end=stop, on_end=requeue or on_end=hold", clip(value))
		}
		w.OnEnd = OnEnd(value)
		return ""
	case "capacity":
		if !CapacityWish(value).Known() {
			return fmt.Sprintf(
				"capacity=%q in --comment cannot be right; write capacity=reserve, capacity=reuse or capacity=any", clip(value))
		}
		w.Capacity = CapacityWish(value)
		return ""
	}
	return "not ours"
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// wishKeys are the keys of a comment that parseWish reads.
var wishKeys = []string{"capacity_reservation_id", "instance_type", "subnet_id", "on_end", "capacity"}

// nearKeys returns a sentence for each word of a comment that was probably meant for us but is none of our keys:
// Capacity_Reservation_Id=…, capacity_reservation=…, id=cr-…, or a key without a value ("on_end requeue"; not
// "capacity", a common word). Such a word has no effect, and its author should know.
func nearKeys(comment string) (warnings []string) {
	for _, word := range wishWords(comment) {
		key, value, ok := strings.Cut(word, "=")
		if known := strings.ToLower(word); !ok && strings.Contains(word, "_") && slices.Contains(wishKeys, known) {
			warnings = append(warnings, fmt.Sprintf(
				"%s in --comment has no value and changes nothing; write %s=… as one word, without spaces", word, known))
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
