package ec2

import (
	"context"
	"errors"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

var errStub = errors.New("not there yet")

type Missing struct {
	ID  string
	Err error
}

func (c *Client) Reservations(ctx context.Context, ids []string) (found []capacity.Reservation, missing []Missing, err error) {
	return nil, nil, errStub
}
func (c *Client) Reservation(ctx context.Context, id string) (capacity.Reservation, error) {
	return capacity.Reservation{}, errStub
}
func (c *Client) ReservationsByTag(ctx context.Context, tags map[string]string) ([]capacity.Reservation, error) {
	return nil, errStub
}

// OwnedAndShared lists every reservation that EC2 shows to this account in the region.
func (c *Client) AllReservations(ctx context.Context) ([]capacity.Reservation, error) {
	return nil, errStub
}
func (c *Client) Subnets(ctx context.Context, ids []string) ([]capacity.Subnet, error) {
	return nil, errStub
}

type OfferingQuery struct {
	InstanceType      string
	Count             int
	Duration          time.Duration
	StartAfter, EndBy time.Time
}

func (c *Client) Offerings(ctx context.Context, q OfferingQuery) ([]capacity.Offering, error) {
	return nil, errStub
}
func (c *Client) Purchase(ctx context.Context, offeringID, platform string, tags map[string]string) (capacity.Reservation, error) {
	return capacity.Reservation{}, errStub
}

type LaunchRequest struct {
	ClientToken, LaunchTemplate, InstanceType, SubnetID string
	ReservationID                                       string
	Kind                                                capacity.Kind
	Count                                               int
	Tags                                                map[string]string
}
type Instance struct {
	ID, PrivateIP, ReservationID, State string
	LaunchIndex                         int
	Tags                                map[string]string
}

func (c *Client) Launch(ctx context.Context, r LaunchRequest) ([]Instance, error) {
	return nil, errStub
}
func (c *Client) TagInstances(ctx context.Context, tags map[string]map[string]string) error {
	return errStub
}
func (c *Client) InstancesByTag(ctx context.Context, tags map[string][]string) ([]Instance, error) {
	return nil, errStub
}
func (c *Client) Terminate(ctx context.Context, ids []string) error { return errStub }
