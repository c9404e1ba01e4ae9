package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// IntentKind is what an intent is about.
type IntentKind string

// The kinds of intent. Recorded is no intent to buy: it holds what a reservation
// that was bought elsewhere has cost.
const (
	Purchase  IntentKind = "purchase"
	Extension IntentKind = "extension"
	Recorded  IntentKind = "recorded"
)

// Phase is how far an intent has come.
type Phase string

// The phases.
const (
	// Sending: the outcome is unknown. The call may or may not have reached EC2, and EC2
	// must be asked before anything is bought.
	Sending Phase = "sending"
	// Bought: EC2 has made it, but the command that bought it has not come to its end;
	// nobody may have been told. The next run takes it up.
	Bought Phase = "bought"
	// Done: bought, and told.
	Done Phase = "done"
	// Failed: refused by EC2, never made, or not paid for. Code and Message say why.
	Failed Phase = "failed"
)

// Intent is a purchase or an extension of a Capacity Block that somebody decided
// on. It is on disk before the call is sent: whatever happens then, the next run
// knows that money may have been spent.
type Intent struct {
	// ID is unique; a purchased reservation carries it as a tag.
	ID    string     `json:"id"`
	Kind  IntentKind `json:"kind"`
	Phase Phase      `json:"phase"`
	// At is AWS's time of the decision, taken just before the call.
	At time.Time `json:"at"`
	// SettledAt is AWS's time from which on something that EC2 does not show was not
	// made.
	SettledAt time.Time `json:"settled_at,omitzero"`
	// Account is the id of the AWS account; "" when it could not be asked for.
	Account  string            `json:"account,omitempty"`
	Region   string            `json:"region"`
	Offering capacity.Offering `json:"offering,omitzero"`
	Fee      capacity.Money    `json:"fee"`
	// Reservation is what was bought; for an extension, what is extended.
	Reservation string `json:"reservation,omitempty"`
	// Asked, OldEnd and NewEnd are an extension's: the length asked for, as EC2 sells it,
	// and the block's end without and with it.
	Asked  capacity.Duration `json:"asked,omitzero"`
	OldEnd time.Time         `json:"old_end,omitzero"`
	NewEnd time.Time         `json:"new_end,omitzero"`
	// Code is EC2's error code when the call failed; Message says what is known.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

func (d Dir) intentsDir() string { return filepath.Join(string(d), "intents") }

// IntentPath is where the intent of that id lies.
func (d Dir) IntentPath(id string) string { return filepath.Join(d.intentsDir(), id+".json") }

// WriteIntent writes one intent, to disk and not only to the cache, replacing what
// was known of it.
func (d Dir) WriteIntent(i Intent) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	if err := errors.Join(d.Create(), os.MkdirAll(d.intentsDir(), 0o755)); err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	if err := renameio.WriteFile(d.IntentPath(i.ID), append(text, '\n'), 0o644, renameio.WithTempDir(d.intentsDir())); err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}
	// The file is on disk; so must be its name, which the directory holds.
	for _, dir := range []string{d.intentsDir(), string(d)} {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("recording %s: %w", i.Kind, err)
		}
	}
	return nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Intents reads all intents, oldest first. One that cannot be read is an error: it
// may stand for money.
func (d Dir) Intents() ([]Intent, error) {
	paths, err := filepath.Glob(filepath.Join(d.intentsDir(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Intent
	for _, path := range paths {
		var i Intent
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &i)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w; look at it before you buy anything", path, err)
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Intent) int { return a.At.Compare(b.At) })
	return all, nil
}

// LockIntents keeps other programs that buy out until the returned function is
// called or this program ends. It does not wait: somebody else buying is an error.
func (d Dir) LockIntents() (unlock func(), err error) {
	if err := errors.Join(d.Create(), os.MkdirAll(d.intentsDir(), 0o755)); err != nil {
		return nil, fmt.Errorf("locking purchases: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(d.intentsDir(), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking purchases: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another purchase or extension runs with %s: %w; wait until it ends", d.intentsDir(), err)
	}
	return func() { _ = f.Close() }, nil
}
