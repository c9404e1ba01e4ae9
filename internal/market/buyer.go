package market

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Buyer buys blocks and extensions, and commits to ODCRs for later, each at most once (R3).
type Buyer struct {
	EC2      World                     // EC2 in the region of the purchase
	In       func(region string) World // EC2 in the region of an earlier one
	Customer Customer
	StateDir state.Dir // holds the intents. Programs that share it take turns to buy.
	Cluster  string    // the value of the purchase's cluster tag; "" for none
	DryRun   bool      // buys nothing and writes nothing
	// Recorded is the age of StateDir's record of all that was bought. What was bought earlier, perhaps by another
	// machine, EC2 shows after Lag: an order waits for the rest of it.
	Recorded time.Duration
	// Pause waits, and reports false when ctx has ended; nil waits by the machine's clock.
	Pause func(ctx context.Context, d time.Duration) bool
}

// World has the calls of EC2 in one region that buying and extending need.
type World interface {
	Region() string
	Now() time.Time
	OnWait(tell func(ec2.Wait))
	Account(ctx context.Context) (string, error)
	Reservations(
		ctx context.Context,
		ids []string,
	) (found []capacity.Reservation, missing []capacity.Missing, err error)
	FindReservations(ctx context.Context, q ec2.ReservationQuery) ([]capacity.Reservation, error)
	Extensions(ctx context.Context, reservation string) ([]capacity.Extension, error)
	Offerings(ctx context.Context, q ec2.OfferingQuery) ([]capacity.Offering, error)
	ExtensionOfferings(ctx context.Context, reservation string, length time.Duration) ([]capacity.Offering, error)
	Purchase(
		ctx context.Context,
		s ec2.Sale,
		offering, platform string,
		tags map[string]string,
	) (capacity.Reservation, error)
	PurchaseExtension(ctx context.Context, s ec2.Sale, offering, reservation string) error
}

// callTimeout bounds the call that buys. EC2 may then take settleTime to show the purchase: it shows a change
// everywhere within minutes, and for what depends on it AWS says to ask again for up to five (EC2 Developer Guide,
// "Eventual consistency"). What it does not show by then was not bought.
const callTimeout, settleTime = time.Minute, 5 * time.Minute

// Lag bounds how long after its begin EC2 does not show a purchase.
const Lag = callTimeout + settleTime

func (b *Buyer) intents() Intents { return Intents{b.StateDir} }

// sleep waits; false means that ctx ended.
func (b *Buyer) sleep(ctx context.Context, d time.Duration) bool {
	if b.Pause != nil {
		return b.Pause(ctx, d)
	}

	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// deal is one run of a buyer, which keeps other programs with the same state_dir from buying until close.
type deal struct {
	*Buyer
	account    string // account of the credentials; "" if unknown
	close      func() // lets others buy; it may be called twice
	unrecorded error  // the reason why an intent's file is out of date
}

// open begins a deal.
func (b *Buyer) open(ctx context.Context) (*deal, error) {
	d := &deal{Buyer: b, close: func() {}}
	b.EC2.OnWait(func(w ec2.Wait) {
		b.Customer.Say("Waiting %s for EC2's request limits in %s.", capacity.FormatDuration(w.For), w.Region)
	})

	account, err := b.EC2.Account(ctx)
	if err != nil {
		slog.Info("the account is not known", "error", err)
	}

	d.account = account
	if b.DryRun {
		return d, nil
	}

	d.close, err = b.intents().Lock()
	if err != nil {
		return nil, fmt.Errorf("%w; a purchase is recorded in state_dir (%s) before it is sent", err, b.StateDir)
	}

	return d, nil
}

// waitForOthers waits until EC2 shows every purchase that this state_dir may have no record of. After a wait, look
// again at what was bought and at what is for sale.
func (d *deal) waitForOthers(ctx context.Context) (waited bool, err error) {
	left := (Lag - d.Recorded).Round(time.Second)
	if left <= 0 || d.DryRun {
		return false, nil
	}

	d.Customer.Say("This state_dir (%s) has no record of the last minutes, and EC2 may show a purchase %s late. "+
		"Nothing is bought for %s, so that nothing is bought twice. If nobody else buys now, use --only-buyer.",
		d.StateDir, capacity.FormatDuration(Lag), capacity.FormatDuration(left))

	progress := d.Customer.Start("waiting for EC2 to show other purchases")
	defer progress.Done()

	if !d.sleep(ctx, left) {
		return false, fmt.Errorf("nothing was bought: %w", ctx.Err())
	}

	d.Recorded = Lag

	return true, nil
}

// offer shows the customer what would be bought, and makes sure that somebody has accepted its very fee: fee, else what
// the customer accepts. In a dry run nobody has to.
func (d *deal) offer(fee capacity.Money, p Preview) error {
	unsaid := fee == (capacity.Money{})
	p.Ask = unsaid && !d.DryRun

	accepted, err := d.Customer.Show(p)
	if err != nil {
		return err
	}

	if p.Ask {
		fee = accepted
	}

	if o := p.Offering; fee != o.Fee && !(unsaid && d.DryRun) { // the currency too
		return fmt.Errorf(
			"offering %s: its fee is %s, not the %s of --confirm-fee; nothing was bought",
			o.ID,
			o.Fee,
			fee,
		)
	}

	return nil
}

// isOurs reports whether an intent belongs to the account of the credentials.
func (d *deal) isOurs(i Intent) bool {
	return i.Account == "" || d.account == "" || i.Account == d.account
}

// newIntent returns an intent with a unique id. It is not on disk yet.
func (d *deal) newIntent(kind IntentKind) Intent {
	var random [8]byte

	_, _ = rand.Read(random[:]) // never fails: package crypto/rand
	prefix := map[IntentKind]string{BuyBlock: "buy-", ExtendBlock: "extend-"}[kind]

	return Intent{ID: prefix + hex.EncodeToString(random[:]), Kind: kind, Account: d.account, Region: d.EC2.Region()}
}

// send records an intent, makes the call once, and records the outcome. Without an error the intent's phase is Bought.
// An interrupt stops it before the call, but not during the call, whose answer must not be lost.
func (d *deal) send(ctx context.Context, i Intent,
	call func(context.Context) (reservation string, err error),
) (Intent, error) {
	if ctx.Err() != nil {
		return i, fmt.Errorf("nothing was bought: %w", ctx.Err())
	}

	if err := d.checkRecorded(); err != nil {
		return i, err
	}

	// On disk before the call: whatever happens now, the next run knows that something may have been bought (R3).
	i.Phase, i.At = Sending, d.EC2.Now().UTC()
	i.SettledAt = i.At.Add(callTimeout + settleTime)
	if err := d.intents().Write(i); err != nil {
		return i, fmt.Errorf("%w; nothing was bought", err)
	}

	// Ctrl-C must not cut a call whose answer says whether millions were spent.
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()

	reservation, err := call(once)
	switch {
	case err == nil:
		i.Phase = Bought
		i.Reservation = reservation
		d.record(i)
		return i, nil
	case ec2.IsRefused(err):
		return d.refused(context.WithoutCancel(ctx), i, err)
	}

	d.Customer.Say("EC2 gave no clear answer, so whether %s was bought is still unknown: %s", i.Offering.ID,
		firstLine(err))
	i.SettledAt = d.EC2.Now().UTC().Add(settleTime)
	i.Code, i.Message = ec2.Code(err), firstLine(err)
	d.record(i)

	// The customer waits for a clear answer; an interrupt leaves it to the next run.
	if i, settleErr := d.settle(ctx, i); settleErr != nil || i.Phase == Bought {
		return i, settleErr
	}

	return i, fmt.Errorf("%w; offering %s was not bought, run this again to buy it", err, i.Offering.ID)
}

// refused records a refusal by EC2, after one look that confirms it.
func (d *deal) refused(ctx context.Context, i Intent, err error) (Intent, error) {
	i.Code, i.Message = ec2.Code(err), firstLine(err)
	if found, lookErr := d.look(ctx, &i); lookErr == nil && found {
		d.Customer.Say("EC2 refused %s (%s), but shows that it was bought.", i.Offering.ID, firstLine(err))
		i.Phase = Bought
		d.record(i)
		return i, nil
	}

	i.Phase = Failed
	d.record(i)

	return i, notBought(err)
}

// record writes an intent. If that fails, its file is out of date: this run buys nothing more, and
// the next one asks EC2 again.
func (d *deal) record(i Intent) {
	if err := d.intents().Write(i); err != nil {
		d.unrecorded = err
		d.Customer.Say("warning: %s; the next purchase asks EC2 about this one again", err)
	}
}

// checkRecorded returns nil as long as all intents on disk are up to date. Otherwise nothing more is sent.
func (d *deal) checkRecorded() error {
	if d.unrecorded == nil {
		return nil
	}

	return fmt.Errorf(
		"the outcome of an earlier purchase cannot be recorded, so nothing more is bought: %w; make room or fix "+
			"state_dir (%s), then run this again",
		d.unrecorded,
		d.StateDir,
	)
}

// recordEnd records the end of a purchase or an extension that EC2 has made. One made by another machine has no intent
// here.
func (d *deal) recordEnd(i Intent, phase Phase, code string, err error) {
	if i.ID == "" {
		return
	}

	i.Phase = phase
	i.Code = code

	i.Message = ""
	if err != nil {
		i.Message = firstLine(err)
	}

	d.record(i)
}

func notBought(refusal error) error { return fmt.Errorf("nothing was bought: %w", refusal) }
