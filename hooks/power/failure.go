package power

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
)

// Failure is why something was not done. Those of one reason are the same pointer.
type Failure struct {
	// Outcome says whether it may have taken effect. A refusal of our own is NotTried.
	Outcome capacity.Outcome
	// Code is EC2's, verbatim, as is EC2Code, or else ours.
	Code, EC2Code string
	// Message is without Advice, which says what to do, if that is known.
	Message, Advice string
	// NotBefore is AWS's time before which it will be the same; zero if nobody knows.
	NotBefore time.Time
	// LetGo are nodes that are up and keep a job from its launch: see besideNeighbors.
	LetGo []string
}

// refusal is why we do not launch, with a code of ours.
func refusal(code capacity.Code, format string, args ...any) *Failure {
	return &Failure{Outcome: capacity.NotTried, Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// failed is a failure without a code.
func failed(format string, args ...any) *Failure {
	return &Failure{Outcome: capacity.Unknown, Code: string(capacity.FailedOtherwise), Message: fmt.Sprintf(format, args...)}
}

func refusalOf(v capacity.Verdict) *Failure {
	f := refusal(v.Code, "%s", v.Message)
	f.NotBefore = v.NotBefore
	return f
}

// is reports whether there is a failure with the outcome.
func (f *Failure) is(o capacity.Outcome) bool { return f != nil && f.Outcome == o }

// Error makes a failure an error, for the exit status.
func (f *Failure) Error() string { return f.Code + ": " + f.message() }

func (f *Failure) message() string {
	if f.Advice == "" {
		return f.Message
	}
	return strings.TrimSuffix(f.Message, ".") + "; " + f.Advice
}

// word tells the owner of a job.
func (f *Failure) word(nodes string) string {
	return hook.OneLine(fmt.Sprintf("pcs-capacity: nodes %s were not launched: %s: %s", nodes, f.Code, f.message()))
}

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// reason is shown to every user of the cluster. Advice is kept, whatever is cut off.
func (f *Failure) reason() string {
	advice := ""
	if f.Advice != "" {
		advice = "; " + f.Advice
	}
	said := strings.TrimSuffix(f.Code+": "+f.message(), advice)
	return hook.OneLine(hook.Clip(said, maxReason-len(advice)) + advice)
}
