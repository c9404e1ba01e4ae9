package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// buyer buys blocks and extensions, each at most once (R3): what it is about to send is
// on disk before it is sent, it is sent a single time, and as long as the outcome of an
// earlier run is not known nothing is bought.
type buyer struct {
	t *terminal.Terminal
	// aws is EC2 in the region of what is bought, home in that of the settings.
	aws, home *ec2.Client
	globals   *Globals
	cfg       *maybeConfig
	dir       state.Dir
	// account that the credentials belong to; "" when AWS would not say.
	account string
	// dry buys nothing and writes nothing.
	dry    bool
	unlock func()
	// subnets is where the cluster can run nodes, once somebody has asked.
	subnets *clusterSubnets
}

// accountTimeout bounds the one question to AWS STS, whose endpoint some networks
// cannot reach.
const accountTimeout = 5 * time.Second

// newBuyer keeps other programs with the same state_dir from buying until close. It
// buys in the region; "" is the settings' own.
func newBuyer(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client, region string, dryRun bool) (*buyer, error) {
	b := &buyer{t: t, aws: aws.In(region), home: aws, globals: g, cfg: cfg, dir: state.Dir(cfg.StateDir), dry: dryRun, unlock: func() {}}
	aws.OnWait(func(w ec2.Wait) {
		t.Say("Waiting %s for EC2's request limits in %s.", w.For.Round(time.Second), w.Region)
	})
	if !dryRun {
		unlock, err := b.dir.LockIntents()
		if err != nil {
			return nil, fmt.Errorf("%w; a purchase is recorded in state_dir (%s) before it is sent", err, b.dir)
		}
		b.unlock = unlock
	}
	ask, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	account, err := aws.Account(ask)
	if err != nil {
		slog.Info("the account is not known", "error", err)
	}
	b.account = account
	return b, nil
}

// close lets others buy; it may be called twice.
func (b *buyer) close() {
	b.unlock()
	b.unlock = func() {}
}

// cluster is where the configured cluster can run nodes.
func (b *buyer) cluster(ctx context.Context) clusterSubnets {
	if b.subnets == nil {
		read := readClusterSubnets(ctx, b.globals, b.cfg, b.home)
		b.subnets = &read
	}
	return *b.subnets
}

// ours reports whether an intent is about the account of the credentials.
func (b *buyer) ours(i state.Intent) bool {
	return i.Account == "" || b.account == "" || i.Account == b.account
}

// newIntent is an intent with a unique id. It is not on disk yet.
func (b *buyer) newIntent(kind state.IntentKind) state.Intent {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: package crypto/rand
	prefix := "buy-"
	if kind == state.Extension {
		prefix = "extend-"
	}
	return state.Intent{ID: prefix + hex.EncodeToString(random[:]), Kind: kind, Account: b.account, Region: b.aws.Region()}
}

// send records an intent, makes the call once, and records the outcome. Without an
// error the intent's phase is Bought. An interrupt before the call stops it; during the
// call it does not, so that the answer is not lost.
func (b *buyer) send(ctx context.Context, i state.Intent, call func(context.Context) (reservation string, err error)) (state.Intent, error) {
	if ctx.Err() != nil {
		return i, fmt.Errorf("interrupted: %w; nothing was bought", ctx.Err())
	}
	timeout, settle := b.cfg.Purchase.Timeout.Duration, b.cfg.Purchase.Settle.Duration
	i.Phase, i.At = state.Sending, b.aws.Now().UTC()
	i.SettledAt = i.At.Add(timeout + settle)
	if err := b.dir.WriteIntent(i); err != nil {
		return i, fmt.Errorf("%w; nothing was bought", err)
	}
	once, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	reservation, err := call(once)
	switch {
	case err == nil:
		i.Phase, i.Reservation = state.Bought, reservation
		b.record(i)
		return i, nil
	case ec2.Refused(err):
		return b.refused(context.WithoutCancel(ctx), i, err)
	}
	b.t.Say("EC2 gave no clear answer, so it is not known yet whether %s was bought: %s", i.Offering.ID, firstLine(err))
	i.SettledAt = b.aws.Now().UTC().Add(settle)
	i.Code, i.Message = ec2.Code(err), firstLine(err)
	b.record(i)
	if i, settleErr := b.settle(ctx, i); settleErr != nil || i.Phase == state.Bought {
		return i, settleErr
	}
	return i, fmt.Errorf("%w; offering %s was not bought, run this again to buy it", err, i.Offering.ID)
}

// refused records that EC2 said no, after one look whether that is so.
func (b *buyer) refused(ctx context.Context, i state.Intent, err error) (state.Intent, error) {
	i.Code, i.Message = ec2.Code(err), firstLine(err)
	if found, lookErr := b.look(ctx, &i); lookErr == nil && found {
		b.t.Say("EC2 refused %s (%s), but shows that it was bought.", i.Offering.ID, firstLine(err))
		i.Phase = state.Bought
		b.record(i)
		return i, nil
	}
	i.Phase = state.Failed
	b.record(i)
	return i, fmt.Errorf("%w; nothing was bought%s", err, adviceFor(i))
}

// record writes down what is known by now. When that fails, the intent on disk says
// less than is known, and the next run asks EC2 once more.
func (b *buyer) record(i state.Intent) {
	if err := b.dir.WriteIntent(i); err != nil {
		b.t.Say("warning: %s; the next purchase asks EC2 about this one again", err)
	}
}

// end records how a purchase or an extension that EC2 has made came to its end. One
// that another machine made has no intent here.
func (b *buyer) end(i state.Intent, phase state.Phase, code string, err error) {
	if i.ID == "" {
		return
	}
	i.Phase, i.Code, i.Message = phase, code, ""
	if err != nil {
		i.Message = firstLine(err)
	}
	b.record(i)
}

// adviceFor says what to do about EC2's refusal.
func adviceFor(i state.Intent) string {
	switch i.Code {
	case "InvalidCapacityBlockOfferingIdExpired", "InvalidCapacityBlockOfferingIdNotFound":
		return "; somebody else may have it: run `pcs-capacity offerings` again"
	case "InvalidCapacityBlockExtensionOfferingIdExpired", "InvalidCapacityBlockExtensionOfferingIdNotFound":
		return "; run this again for a new offering"
	case "UnauthorizedOperation", "AccessDenied":
		if i.Kind == state.Extension {
			return "; the caller needs ec2:PurchaseCapacityBlockExtension"
		}
		return "; the caller needs ec2:PurchaseCapacityBlock, and ec2:CreateTags on the reservation"
	case "RequestLimitExceeded":
		return "; EC2 allows 10 purchases, then one in 7 seconds: run this again in a minute"
	}
	return ""
}
