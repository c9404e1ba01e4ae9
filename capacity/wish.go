package capacity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Wish holds our part of a job's --comment. A user can change it after submission, so it only selects among the
// reservations that the job's partition and account may use.
type Wish struct {
	ReservationID string
	InstanceType  string
	SubnetID      string
	Capacity      CapacityWish // Capacity says how the job's nodes may be launched
	OnEnd         OnEnd        // what happens to the job at the fence; "" leaves it to the partition
}

// NamesCapacity reports whether the wish names capacity, which is checked in every partition.
func (w Wish) NamesCapacity() bool {
	return w.ReservationID != "" || w.InstanceType != "" || w.SubnetID != ""
}

// CapacityWish holds the value of capacity= in a job's comment.
type CapacityWish string

// The values. Without one, or with any, the node group's settings decide.
const (
	AnyCapacity     CapacityWish = "any"
	ReuseCapacity   CapacityWish = "reuse"   // only in existing reservations
	ReserveCapacity CapacityWish = "reserve" // create an ODCR for the whole job first
	PreferCapacity  CapacityWish = "prefer"  // create one if EC2 has room for it, and launch anyway
)

// IsKnown reports whether the value is one of these.
func (w CapacityWish) IsKnown() bool {
	return w == AnyCapacity || w == ReuseCapacity || w == ReserveCapacity || w == PreferCapacity
}

// MaxComment is the longest comment that slurmctld takes, in bytes.
const MaxComment = 1024

// Wish reads our part of the comment. The sentences report our keys that have an impossible value or appear twice.
func (r Request) Wish() (Wish, []string) { return parseWish(r.Comment) }

// Wish reads our part of the job's comment, see [Request.Wish].
func (j Job) Wish() (Wish, []string) { return Request{Comment: j.Comment}.Wish() }

// parseWish reads the k=v words of a comment, separated by spaces or commas; it ignores other words.
func parseWish(comment string) (Wish, []string) {
	var (
		w        Wish
		problems []string
	)

	seen := map[string]bool{}
	words := wishWords(comment)
	for i, word := range words {
		key, value, ok := strings.Cut(word, "=")
		k, ours := wishKeys[key]
		if !ok || !ours || isProse(words, i) {
			continue
		}

		if k.valid(value) {
			k.set(&w, value)
		}

		switch {
		case seen[key]:
			problems = append(problems, fmt.Sprintf("%s is given twice in --comment; give it once", key))
		case !k.valid(value):
			problems = append(problems,
				fmt.Sprintf("%s=%q in --comment is not valid; write %s", key, truncate(value), k.write))
		}

		seen[key] = true
	}

	return w, problems
}

// isProse reports whether a word is part of a sentence, as in "capacity=full run": its key is a common word, its value
// none of ours, and a plain word stands beside it.
func isProse(words []string, i int) bool {
	key, value, hasValue := strings.Cut(words[i], "=")
	k, ours := wishKeys[key]
	if !ours || !hasValue || strings.Contains(key, "_") || k.valid(value) {
		return false
	}

	beside := slices.Concat(words[max(0, i-1):i], words[i+1:min(i+2, len(words))])

	return slices.ContainsFunc(beside, func(word string) bool { return !strings.Contains(word, "=") })
}

func wishWords(comment string) []string {
	return strings.FieldsFunc(comment, func(r rune) bool { return strings.ContainsRune(", \t\n\r", r) })
}

// wishKeys lists the keys of a comment that are ours: how to write each, and what it sets.
var wishKeys = map[string]struct {
	write string
	valid func(value string) bool
	set   func(w *Wish, value string)
}{
	"capacity_reservation_id": {
		"it like capacity_reservation_id=cr-0123456789abcdef0",
		IsReservationID,
		func(w *Wish, value string) { w.ReservationID = value },
	},
	"instance_type": {
		"it like instance_type=p5.48xlarge",
		IsInstanceType,
		func(w *Wish, value string) { w.InstanceType = value },
	},
	"subnet_id": {
		"it like subnet_id=subnet-0123456789abcdef0",
		IsSubnetID,
		func(w *Wish, value string) { w.SubnetID = value },
	},
	"on_end": {
		"on_end=stop, on_end=requeue or on_end=hold",
		func(value string) bool { return OnEnd(value).IsKnown() },
		func(w *Wish, value string) { w.OnEnd = OnEnd(value) },
	},
	"capacity": {
		"capacity=reserve, capacity=prefer, capacity=reuse or capacity=any",
		func(value string) bool { return CapacityWish(value).IsKnown() },
		func(w *Wish, value string) { w.Capacity = CapacityWish(value) },
	},
}

func truncate(s string) string {
	const most = 40

	if len(s) > most {
		return s[:most] + "…"
	}

	return s
}

// warnMisspelledKeys returns a sentence for each word of a comment that was probably meant for us but is none of our
// keys: Capacity_Reservation_Id=…, capacity_reservation=…, id=cr-…, or a key without a value ("on_end requeue"; not
// "capacity", a common word). Such a word has no effect, and its author should know.
func warnMisspelledKeys(comment string) (warnings []string) {
	words := wishWords(comment)
	for i, word := range words {
		if isProse(words, i) {
			name, _, _ := strings.Cut(word, "=")
			warnings = append(warnings, fmt.Sprintf("%s in --comment changes nothing; to ask for capacity, write %s",
				truncate(word), wishKeys[name].write))
		}

		key, value, ok := strings.Cut(word, "=")
		known := strings.ToLower(word)
		if _, ours := wishKeys[known]; ours && strings.Contains(word, "_") {
			warnings = append(warnings, fmt.Sprintf("%s in --comment has no value and changes nothing; "+
				"write %s=… as one word, without spaces", word, known))
		}

		if !ok || key == "" {
			continue
		}

		if meant := closestKey(key, value); meant != "" && meant != key {
			warnings = append(warnings,
				fmt.Sprintf("%s= in --comment is not a key of pcs-capacity and changes nothing; did you mean %s=?",
					truncate(key), meant))
		}
	}

	return warnings
}

// closestKey returns our key that a word probably meant; "" if none.
func closestKey(key, value string) string {
	switch {
	case IsReservationID(value):
		return "capacity_reservation_id"
	case IsSubnetID(value):
		return "subnet_id"
	}

	for name := range wishKeys {
		// A fifth of the letters may be wrong or missing: that covers capacity_reservation, and keeps "capability"
		// apart from "capacity", and "subnet" from "subnet_id". Swapped letters count as two wrong ones there.
		written := strings.ToLower(key)
		if levenshtein.ComputeDistance(written, name) <= len(name)/5 || sortLetters(written) == sortLetters(name) {
			return name
		}
	}

	return ""
}

// sortLetters returns a word's letters in their order.
func sortLetters(word string) string {
	letters := []rune(word)
	slices.Sort(letters)

	return string(letters)
}
