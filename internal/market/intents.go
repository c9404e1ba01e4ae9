package market

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Intents is the folder of the intents in a state_dir, one file each.
type Intents struct{ StateDir state.Dir }

const intentsFolder = "intents"

func (f Intents) name(id string) string { return filepath.Join(intentsFolder, id+".json") }

// Path returns the file of the intent of that id.
func (f Intents) Path(id string) string { return f.StateDir.PrivatePath(f.name(id)) }

// Write writes one intent, to disk and not only to the cache, replacing its file, and reads it back.
func (f Intents) Write(i Intent) error {
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}

	text = append(text, '\n')

	err = f.StateDir.WritePrivate(f.name(i.ID), text)
	if err == nil {
		err = f.readBack(i.ID, text)
	}

	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Kind, err)
	}

	return nil
}

// readBack makes sure that a file has the written text.
func (f Intents) readBack(id string, text []byte) error {
	has, err := f.StateDir.ReadPrivate(f.name(id))
	if err == nil && !bytes.Equal(has, text) {
		err = fmt.Errorf("%s does not have what was written", f.Path(id))
	}

	return err
}

// All reads all intents, oldest first. An unreadable one is an error: it may stand for money.
func (f Intents) All() ([]Intent, error) {
	names, err := f.StateDir.ListPrivate(intentsFolder)
	if err != nil {
		return nil, fmt.Errorf("reading what was bought: %w", err)
	}

	var all []Intent
	for _, name := range names {
		id, is := strings.CutSuffix(name, ".json")
		if !is || strings.HasPrefix(id, ".") {
			continue
		}

		var i Intent

		text, err := f.StateDir.ReadPrivate(f.name(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = json.Unmarshal(text, &i)
		}

		if err != nil {
			return nil, fmt.Errorf("reading %s: %w; look at it before you buy anything", f.Path(id), err)
		}

		all = append(all, i)
	}

	slices.SortFunc(all, func(a, b Intent) int { return a.At.Compare(b.At) })

	return all, nil
}

// Lock keeps other buyers out until the returned function is called or this program ends. It does not
// wait: another buyer is an error.
func (f Intents) Lock() (unlock func(), err error) {
	return f.StateDir.Lock(context.Background(), state.PurchaseLock, 0)
}

// IntentKind is the kind of an intent.
type IntentKind string

// The kinds of intent.
const (
	BuyBlock    IntentKind = "purchase"
	ExtendBlock IntentKind = "extension"
)

// Phase is the progress of an intent.
type Phase string

// The phases.
const (
	// Sending: the outcome is unknown. The call may or may not have reached EC2, and EC2
	// must be asked before anything is bought.
	Sending Phase = "sending"
	// Bought: EC2 has made it, but the command was killed before its end, and nobody may know. The next run takes it
	// up.
	Bought Phase = "bought"
	// Done: bought, and reported.
	Done Phase = "done"
	// Failed: refused by EC2, never made, or not paid for. Code and Message have the reason.
	Failed Phase = "failed"
)

// Intent is a decision to buy or extend a Capacity Block. It is on disk before the call is sent: whatever
// happens then, the next run knows that money may have been spent.
type Intent struct {
	ID    string     `json:"id"` // unique; a purchased reservation carries it as a tag
	Kind  IntentKind `json:"kind"`
	Phase Phase      `json:"phase"`
	At    time.Time  `json:"at"` // AWS's time of the decision, taken just before the call
	// SettledAt is AWS's time after which a purchase that EC2 does not show was not made.
	SettledAt time.Time         `json:"settled_at,omitzero"`
	Account   string            `json:"account,omitempty"` // the id of the AWS account; "" if unknown
	Region    string            `json:"region"`
	Offering  capacity.Offering `json:"offering,omitzero"` // the offering bought
	// OrderedAs is the requested id, if EC2 sold the same block under another one, Offering's; "" else.
	OrderedAs   string         `json:"ordered_as,omitempty"`
	Platform    string         `json:"platform,omitempty"` // the platform of the image that will run; "" for an extension
	Fee         capacity.Money `json:"fee"`
	Reservation string         `json:"reservation,omitempty"` // the reservation bought or extended
	// Asked is the requested length of an extension, which EC2 does not always sell.
	Asked capacity.Duration `json:"asked,omitzero"`
	// OldEnd and NewEnd are an extension's: the block's end without and with it.
	OldEnd time.Time `json:"old_end,omitzero"`
	NewEnd time.Time `json:"new_end,omitzero"`
	// Code is EC2's error code when the call failed; Message has the details.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// String returns the intent in a sentence.
func (i Intent) String() string {
	if i.Kind == ExtendBlock {
		return fmt.Sprintf("extension %s of %s by offering %s", i.ID, i.Reservation, i.Offering.ID)
	}
	return fmt.Sprintf("%s %s of offering %s", i.Kind, i.ID, i.Offering.ID)
}

// orderedID returns the id of the offering under which the purchase was ordered.
func (i Intent) orderedID() string { return cmp.Or(i.OrderedAs, i.Offering.ID) }

// alias names, after the offering's id, the other id under which somebody ordered the same block.
func (i Intent) alias(id string) string {
	if id == i.Offering.ID {
		return ""
	}
	return fmt.Sprintf(" (the same block as %s)", id)
}

// boughtAs names the purchase made under it.
func (i Intent) boughtAs() string {
	if i.Kind == ExtendBlock {
		return "and extends " + i.Reservation
	}
	return "as " + i.Reservation
}
