package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// OnWait has nothing to tell: EC2 has no request limits here.
func (e *EC2) OnWait(func(ec2.Wait)) {}

// Account is that of the credentials.
func (e *EC2) Account(context.Context) (string, error) {
	return "111122223333", e.read("account", func() {})
}

// Offerings are the blocks for sale.
func (e *EC2) Offerings(_ context.Context, q ec2.OfferingQuery) ([]capacity.Offering, error) {
	return find(e, "find offerings", func() []capacity.Offering { return slices.Clone(e.ForSale) }, func(o capacity.Offering) bool {
		return o.InstanceType == q.InstanceType && o.Count == q.Count
	})
}

// ExtensionOfferings has the one of that very length.
func (e *EC2) ExtensionOfferings(_ context.Context, id string, length time.Duration) (found []capacity.Offering, err error) {
	err = e.read("find extensions", func() {
		if r, there := e.Real(id); there && r.State.Live() {
			o := capacity.Offering{ID: fmt.Sprintf("cbe-%s-%s-%s", id, Clock(r.End), length), Start: r.End, End: r.End.Add(length)}
			found, e.ForSale = []capacity.Offering{o}, append(e.ForSale, o)
		}
	})
	return found, err
}

// Extensions are those of a block.
func (e *EC2) Extensions(_ context.Context, id string) ([]capacity.Extension, error) {
	return find(e, "describe extensions", func() []capacity.Extension { return slices.Clone(e.Extended[id]) }, func(x capacity.Extension) bool {
		return !e.Late || e.Now().Sub(x.Purchased) >= consistent
	})
}

// errNotSold is EC2's answer to who wants what is not for sale.
var errNotSold = errors.New("InvalidParameterValue: not for sale")

func (e *EC2) sell(verb string, s ec2.Sale, offering string, deliver func(capacity.Offering) error) error {
	if s != ec2.Buy {
		return e.read("try to "+verb, func() {})
	}
	return e.Do(Call{Verb: verb, Text: offering, Change: true, EC2: true}, func() error {
		i := slices.IndexFunc(e.ForSale, func(o capacity.Offering) bool { return o.ID == offering })
		if i < 0 {
			return errNotSold
		}
		return deliver(e.ForSale[i])
	})
}

// Purchase sells a block, which EC2 may show late.
func (e *EC2) Purchase(_ context.Context, s ec2.Sale, offering, platform string, tags map[string]string) (capacity.Reservation, error) {
	var r capacity.Reservation
	err := e.sell("purchase", s, offering, func(o capacity.Offering) error {
		e.IDs++
		r = o.Reservation(fmt.Sprintf("cr-%d", e.IDs))
		r.State, r.Platform, r.Tenancy, r.Tags, r.Created = "", platform, o.Tenancy, maps.Clone(tags), e.Now()
		if e.NotPaid {
			r.State = capacity.StatePaymentFailed
		}
		e.Reserve(r)
		r = e.stated(r)
		return nil
	})
	if err != nil {
		return capacity.Reservation{}, err
	}
	return r, nil
}

// PurchaseExtension sells an extension of a block that still ends where it begins.
func (e *EC2) PurchaseExtension(_ context.Context, s ec2.Sale, offering, id string) ([]capacity.Extension, error) {
	x := capacity.Extension{OfferingID: offering, State: capacity.ExtensionPaid}
	err := e.sell("purchase extension", s, offering, func(o capacity.Offering) error {
		if r, there := e.Real(id); !there || !r.End.Equal(o.Start) || !r.State.Live() {
			return errNotSold
		}
		if x.From, x.To, x.Purchased = o.Start, o.End, e.Now(); e.NotPaid {
			x.State = capacity.ExtensionFailed
		} else {
			e.Change(id, func(r *capacity.Reservation) { r.End = o.End })
		}
		e.Extended[id] = append(e.Extended[id], x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []capacity.Extension{x}, nil
}
