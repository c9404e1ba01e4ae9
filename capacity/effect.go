package capacity

// Effect is one change that a decision asks for: a small value with everything that the change needs. Each use case
// declares its own effects, and one executor carries them out. `--dry-run`, the log, the records and `-o json` all
// show the effects themselves.
type Effect interface {
	// Code is stable, for scripts: "create-fence".
	Code() string
	// About is what the effect changes.
	About() Subject
	// Sentence says for people what will be done, or what was done.
	Sentence(t Tense) string
}

// Tense is the tense of an effect's sentence.
type Tense bool

// The tenses.
const (
	Will Tense = false // the effect is planned
	Did  Tense = true  // the effect was carried out, or tried
)

// Verb chooses the form of a verb: Verb("place", "placed").
func (t Tense) Verb(will, did string) string {
	if t == Did {
		return did
	}
	return will
}

// Subject is what an effect or a problem is about; an unused field is "".
type Subject struct {
	Partition   string `json:"partition,omitzero"`
	Slot        string `json:"slot,omitzero"`
	Node        string `json:"node,omitzero"` // a node, or a hostlist
	Job         string `json:"job,omitzero"`  // as squeue shows it: 12_3
	Instance    string `json:"instance,omitzero"`
	Reservation string `json:"reservation,omitzero"`
}
