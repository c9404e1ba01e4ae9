package market

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// attackRounds is how often an attack is made: PCS_CAPACITY_ATTACK, or 3.
func attackRounds(t *testing.T) int {
	t.Helper()

	text := os.Getenv("PCS_CAPACITY_ATTACK")
	if text == "" {
		return 3
	}

	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}

	return n
}

// disk is a small file system, which fill leaves without a free byte.
type disk struct {
	*testing.T
	dir string
}

func newDisk(t *testing.T) disk {
	t.Helper()

	d := disk{t, t.TempDir()}
	err := syscall.Mount("full-disk-test", d.dir, "tmpfs", 0, "size=128k")
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no file system can be mounted here: %v", err)
	}

	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, 0); err != nil {
			t.Error(err)
		}
	})

	return d
}

func (d disk) ballast() string { return filepath.Join(d.dir, "ballast") }

func (d disk) fill() {
	d.Helper()

	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.Error(err)
		return
	}
	defer f.Close()

	for err == nil {
		_, err = f.Write(make([]byte, 1024))
	}

	if !errors.Is(err, syscall.ENOSPC) {
		d.Error(err)
	}
}

func (d disk) free() {
	d.Helper()

	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.Error(err)
	}
}

// sellers buy, by kind. Each returns what was bought, and whether it was bought now; asked is called at the
// confirmation.
var sellers = map[IntentKind]struct {
	call string
	buy  func(w *world, asked func()) (reservation string, now bool, err error)
}{
	BuyBlock: {"PurchaseCapacityBlock", func(w *world, asked func()) (string, bool, error) {
		var block Result

		o := w.order(w.offering("USD").ID, usd(w.T, "960"), &block)
		w.show = func(Preview) error { asked(); return nil }
		err := w.buyer().Purchase(w.Context(), o)

		return block.Reservation.ID, block.BoughtNow, err
	}},
	ExtendBlock: {"PurchaseCapacityBlockExtension", func(w *world, asked func()) (string, bool, error) {
		var extension Result

		o := w.extension(dollarBlock, usd(w.T, "960"), &extension)
		w.show = func(Preview) error { asked(); return nil }
		err := w.buyer().Extend(w.Context(), o)

		return extension.Reservation.ID, extension.BoughtNow, err
	}},
}

// The disk of state_dir is full once EC2 has sold. Each later run resumes that purchase, whether there is room again
// when it asks for the fee, or never, or two run at once. One is sold.
func TestR3_OnePurchaseBesideAFullDisk(t *testing.T) {
	d := newDisk(t)
	for round := range attackRounds(t) {
		for kind, seller := range sellers {
			w := newWorld(t, nil)
			w.dir = state.Dir(filepath.Join(d.dir, string(kind)+strconv.Itoa(round)))
			w.sim.OnResponse(func(_, operation string, _ int, _ []byte) {
				if operation == seller.call {
					d.fill()
				}
			})

			run := func(name string, asked func(), now bool) {
				t.Helper()

				id, boughtNow, err := seller.buy(w, asked)
				bought := w.sim.Ledger()
				if err != nil || len(bought) != 1 || id != bought[0].ReservationID || boughtNow != now {
					t.Fatalf(
						"round %d, %s, %s: %v; told of %q, now: %t; sold %+v\n%s",
						round,
						kind,
						name,
						err,
						id,
						boughtNow,
						bought,
						w.said(),
					)
				}
			}
			run("it fills", func() {}, true)
			run("room when it asks", d.free, false)
			d.fill()
			run("it stays full", func() {}, false)

			var two sync.WaitGroup
			for _, w := range []*world{w, w.somebodyElse()} {
				two.Go(func() { // one may say that the other runs
					if _, now, err := seller.buy(w, func() {}); now ||
						err != nil && !strings.Contains(err.Error(), "another purchase") {
						t.Errorf("round %d, %s, two at once: %t, %v", round, kind, now, err)
					}
				})
			}

			two.Wait()
			d.free()
			run("room again", func() {}, false)

			if all, err := (Intents{w.dir}).All(); err != nil || len(all) != 1 || all[0].Phase != Done {
				t.Errorf("round %d, %s: %+v, %v", round, kind, all, err)
			}

			if err := os.RemoveAll(string(w.dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Nothing is sent without an intent on disk, or while the outcome of an earlier one cannot be recorded.
func TestR3_NothingIsSentFromAFullDisk(t *testing.T) {
	d := newDisk(t)
	for kind, seller := range sellers {
		w := newWorld(t, nil)
		w.dir = state.Dir(filepath.Join(d.dir, string(kind)))
		d.fill()

		if _, _, err := seller.buy(w, func() {}); err == nil || !strings.Contains(err.Error(), "no space left") ||
			len(w.sim.Ledger()) != 0 {
			t.Errorf("%s: %v; sold %+v", kind, err, w.sim.Ledger())
		}

		d.free()
		// Of another offering, at another time.
		other := Intent{
			ID:       "buy-1",
			Kind:     BuyBlock,
			Phase:    Sending,
			At:       opening.Add(-time.Hour),
			Region:   "us-east-2",
			Offering: capacity.Offering{ID: "cb-0e2000000000000cc"},
		}
		write(t, Intents{w.dir}, other)
		d.fill()

		if _, _, err := seller.buy(w, d.free); err == nil || !strings.Contains(err.Error(), "nothing more is bought") ||
			len(w.sim.Ledger()) != 0 {
			t.Errorf("%s: %v; sold %+v", kind, err, w.sim.Ledger())
		}

		d.free()

		if _, now, err := seller.buy(w, func() {}); err != nil || !now {
			t.Errorf("%s, with room again: %v", kind, err)
		}
	}
}

// A block that EC2 shows under an intent's id was bought, whatever the file says.
func TestR3_EC2CountsBeforeTheFile(t *testing.T) {
	const block, offering = "cr-0e2000000000000d4", "cb-0e2000000000000aa"
	for _, phase := range []Phase{Sending, Failed} {
		for state, want := range map[string]bool{"scheduled": true, "payment-failed": false} {
			w := worldWith(t, map[string]string{block: state}, offering)
			d := &deal{Buyer: w.buyer()}
			write(
				t,
				d.intents(),
				Intent{
					ID:       "buy-" + block,
					Kind:     BuyBlock,
					Phase:    phase,
					At:       opening,
					Region:   "us-east-2",
					Offering: capacity.Offering{ID: offering},
				},
			)

			if i, found, err := d.boughtBefore(t.Context(), offering, capacity.Offering{}); err != nil ||
				found != want ||
				want && (i.Reservation != block || i.Phase != Bought || i.ID != "buy-"+block) {
				t.Errorf("%s, EC2 has it %s: %+v, %t, %v", phase, state, i, found, err)
			}
		}
	}
}

// A file whose content is not what was written is no record.
func TestReadBack(t *testing.T) {
	f := Intents{state.Dir(t.TempDir())}
	if err := f.StateDir.WritePrivate(f.name("i"), []byte("{}\n")); err != nil {
		t.Fatal(err)
	}

	if err := f.readBack("i", []byte("{}\n")); err != nil {
		t.Error(err)
	}

	if err := f.readBack("i", []byte("{ }\n")); err == nil {
		t.Error("it has something else")
	}

	if err := f.readBack("ij", nil); err == nil {
		t.Error("it is not there")
	}
}
