package capacity

import (
	"fmt"
	"strconv"
	"strings"
)

// Wish is what a user wrote for us into a job's --comment. It is a wish: a user can
// change it after submission, so it only selects among what the job's partition and
// account may use.
type Wish struct {
	ReservationID string
	InstanceType  string
	SubnetID      string
	// Capacity says how the job's nodes may be launched.
	Capacity CapacityWish
	// OnEnd is what the job asks for at the fence; "" leaves it to its partition.
	OnEnd OnEnd
	// Fit is the word time=fit: the limit is ours to fit to the fence. With time=fit:2880
	// it is so up to FitLimit, 2880 minutes, which the job's owner asked for.
	Fit      bool
	FitLimit Limit
}

// Names reports whether it names capacity, which is looked at wherever the job goes.
func (w Wish) Names() bool { return w.ReservationID != "" || w.InstanceType != "" || w.SubnetID != "" }

// CapacityWish is what a job asks for with capacity= in its comment.
type CapacityWish string

// The values. Without one, and with any, the node group's settings decide.
const (
	AnyCapacity     CapacityWish = "any"
	ReuseCapacity   CapacityWish = "reuse"   // in reservations that there are, and nowhere else
	ReserveCapacity CapacityWish = "reserve" // capacity is held for the whole job first
)

// Known reports whether it is one of the values.
func (w CapacityWish) Known() bool {
	return w == AnyCapacity || w == ReuseCapacity || w == ReserveCapacity
}

// FitWord marks, in a job's comment, a time limit that the submit filter chose. Behind
// a colon it has the limit in minutes that the user stated beside a --time-min: Slurm
// forgets it when it shortens the job.
const FitWord = "time=fit"

// MaxComment is the length in bytes of the longest comment that slurmctld takes.
const MaxComment = 1024

// Wish is what the comment says to us, and a sentence for each of our keys that has a value
// which cannot be right, or is there twice.
func (r Request) Wish() (Wish, []string) { return parseWish(r.Comment) }

// Wish is that of the job's comment, see [Request.Wish].
func (j Job) Wish() (Wish, []string) { return Request{Comment: j.Comment}.Wish() }

// parseWish reads the k=v words of a comment. Words are separated by spaces or commas; words
// that are not ours are left alone.
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

// set takes one word; it returns a sentence about a bad value, "" for a good one.
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
			return fmt.Sprintf("on_end=%q in --comment cannot be right; write on_end=stop, on_end=requeue or on_end=hold", clip(value))
		}
		w.OnEnd = OnEnd(value)
		return ""
	case "capacity":
		if !CapacityWish(value).Known() {
			return fmt.Sprintf("capacity=%q in --comment cannot be right; write capacity=reserve, capacity=reuse or capacity=any", clip(value))
		}
		w.Capacity = CapacityWish(value)
		return ""
	case "time":
		// "time" is too common a word to claim: only time=fit and time=fit:MINUTES are ours.
		if value == "fit" {
			w.Fit = true
			return ""
		}
		text, ok := strings.CutPrefix(value, "fit:")
		if minutes, err := strconv.ParseUint(text, 10, 31); ok && err == nil && minutes > 0 {
			w.Fit, w.FitLimit = true, Minutes(int(minutes))
			return ""
		}
	}
	return "not ours"
}

// clip keeps what a user typed short enough to show in a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
