package capacity

import "context"

// Action is one change, decided and not yet made. W is the world that it is made in: the calls that a use case needs.
// `--dry-run`, the log, the record and `-o json` show the action itself.
type Action[W any] struct {
	Code  string // stable, for scripts: "create-fence"
	About Subject
	// Text says for people what is to be done: "place the fence …". It is "" where only our own files change.
	Text string
	// Do makes the change by one or a few calls. It checks again what may have changed since the decision.
	Do func(ctx context.Context, w W) error
}
