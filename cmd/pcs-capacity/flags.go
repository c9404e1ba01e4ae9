package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

// regionFlags is the part of a command that asks regions.
type regionFlags struct {
	Regions []string `help:"Regions to ask, or all." placeholder:"REGION"`
}

// choose returns the regions to ask.
func (a regionFlags) choose(ctx context.Context, aws *ec2.Client) ([]string, error) {
	return market.ChooseRegions(ctx, aws, a.Regions)
}

// span is a length of time on the command line, as capacity.ParseDuration reads it: 7d,
// 36h, 1-12:00:00. It is longer than nothing.
type span time.Duration

func (s span) String() string { return capacity.FormatDuration(time.Duration(s)) }

func (s *span) UnmarshalText(text []byte) error {
	d, err := capacity.ParseDuration(string(text))
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not positive; write it like 90s, 10m, 36h, 7d or 1-12:00:00", text)
	}

	if err != nil {
		return err
	}

	*s = span(d)

	return nil
}

// count is a number on the command line, of 1 or more.
type count int

func (c *count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of 1 or more", text)
	}

	*c = count(n)

	return nil
}

// typeName is an instance type on the command line. The name of a family, such as p5, is none: EC2 sells nothing of
// that name.
type typeName string

func (n *typeName) UnmarshalText(text []byte) error {
	*n = typeName(text)
	if !strings.Contains(string(text), ".") && !strings.HasPrefix(string(text), "u-") {
		return fmt.Errorf("EC2 has no type %s; give the size too, as in p5.48xlarge", text)
	}

	return nil
}

// usd is an amount on the command line, with or without USD.
type usd struct{ capacity.Money }

func (m *usd) UnmarshalText(text []byte) (err error) {
	m.Money, err = capacity.ParseMoney(strings.TrimSuffix(string(text), " "+capacity.USD), capacity.USD)
	return err
}

// moment is a time on the command line, as capacity.ParseTime reads it, in the machine's
// zone: 2026-12-01, "2026-12-01 08:00", tomorrow, or RFC 3339.
type moment struct{ time.Time }

func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = capacity.ParseTime(string(text), time.Now())
	return err
}
