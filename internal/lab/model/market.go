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

// Offerings returns the blocks for sale.
func (e *EC2) Offerings(_ context.Context, q ec2.OfferingQuery) ([]capacity.Offering, error) {
	return find(
		e,
		"find offerings",
		"",
		func() []capacity.Offering { return slices.Clone(e.ForSale) },
		func(o capacity.Offering) bool {
			return o.InstanceType == q.InstanceType && o.Count == q.Count
		},
	)
}

// ExtensionOfferings has the one of that very length.
func (e *EC2) ExtensionOfferings(_ context.Context, id string, length time.Duration) ([]capacity.Offering, error) {
	return read(e, "find extensions", "", func() []capacity.Offering {
		r, _ := e.Real(id)
		o := capacity.Offering{
			ID:    fmt.Sprintf("cbe-%s-%s-%s", id, Clock(r.End), length),
			Start: r.End,
			End:   r.End.Add(length),
		}
		e.ForSale = append(e.ForSale, o)

		return []capacity.Offering{o}
	})
}

// Extensions lists the extensions of a block.
func (e *EC2) Extensions(_ context.Context, id string) ([]capacity.Extension, error) {
	return find(
		e,
		"describe extensions",
		"",
		func() []capacity.Extension { return slices.Clone(e.Extended[id]) },
		func(x capacity.Extension) bool {
			return !e.Late || e.Now().Sub(x.Purchased) >= consistent
		},
	)
}

// errNotSold is EC2's error for an offering that is not for sale.
var errNotSold = errors.New("InvalidParameterValue: not for sale")

func (e *EC2) sell(verb string, s ec2.Sale, offering string, deliver func(capacity.Offering) error) error {
	if s != ec2.Buy {
		return nil
	}

	return e.change(verb, offering, func() error {
		if o := checkName(e.ForSale, func(o capacity.Offering) bool { return o.ID == offering }); o != nil {
			return deliver(*o)
		}
		return errNotSold
	})
}

// Purchase sells a block, which EC2 may show late.
func (e *EC2) Purchase(
	_ context.Context,
	s ec2.Sale,
	offering, platform string,
	tags map[string]string,
) (r capacity.Reservation, err error) {
	err = e.sell("purchase", s, offering, func(o capacity.Offering) error {
		r = o.Reservation(e.newID("cr-"))
		r.State = ""
		r.Platform = platform

		r.Tenancy = o.Tenancy
		r.Tags = maps.Clone(tags)
		r.Created = e.Now()
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
func (e *EC2) PurchaseExtension(_ context.Context, s ec2.Sale, offering, id string) error {
	return e.sell("purchase extension", s, offering, func(o capacity.Offering) error {
		if r, _ := e.Real(id); !r.End.Equal(o.Start) || !r.State.IsLive() {
			return errNotSold
		}

		x := capacity.Extension{
			OfferingID: offering,
			State:      capacity.ExtensionPaid,
			From:       o.Start,
			To:         o.End,
			Purchased:  e.Now(),
		}
		if e.NotPaid {
			x.State = capacity.ExtensionFailed
		} else {
			e.Change(id, func(r *capacity.Reservation) { r.End = o.End })
		}

		e.Extended[id] = append(e.Extended[id], x)

		return nil
	})
}
