package capacity

import (
	"fmt"
	"math/big"
	"time"
)

// Offering is a Capacity Block that EC2 has for sale.
type Offering struct {
	ID           string `json:"id"`
	InstanceType string `json:"instance_type"`
	Count        int    `json:"count"`
	Region       string `json:"region"`
	// AZ is a name of the buying account; EC2 gives no id here, so AZID is looked up.
	AZ   string `json:"az"`
	AZID string `json:"az_id"`
	// Start and End are the true length; EC2's duration fields only come near it.
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Fee      Money     `json:"fee"`
	Currency string    `json:"currency"`
	Tenancy  string    `json:"tenancy,omitempty"`
	// UltraServerType and UltraServerCount are set for UltraServer blocks.
	UltraServerType  string `json:"ultraserver_type,omitempty"`
	UltraServerCount int    `json:"ultraserver_count,omitempty"`
}

// Duration is the time from start to end.
func (o Offering) Duration() time.Duration { return o.End.Sub(o.Start) }

// Money is an amount with an exact decimal value. Its zero value is 0.
type Money struct{ rat big.Rat }

// ParseMoney reads a decimal number such as "12345.67"; no sign, no exponent, no
// currency. It never rounds.
func ParseMoney(s string) (Money, error) {
	var m Money
	for i, c := range s {
		if (c < '0' || c > '9') && (c != '.' || i == 0) {
			return m, fmt.Errorf("%q is not an amount; write it like 12345.67", s)
		}
	}
	if _, ok := m.rat.SetString(s); s == "" || !ok {
		return m, fmt.Errorf("%q is not an amount; write it like 12345.67", s)
	}
	return m, nil
}

// Cmp compares two amounts: -1, 0 or 1.
func (m Money) Cmp(other Money) int { return m.rat.Cmp(&other.rat) }

// Per divides the amount by a number of things, such as instance-hours.
func (m Money) Per(things float64) Money {
	var by, q big.Rat
	if by.SetFloat64(things) == nil || by.Sign() == 0 {
		return Money{}
	}
	q.Quo(&m.rat, &by)
	return Money{rat: q}
}

// String writes the amount with two decimals or, where these would lose something
// that EC2 said, with as many as needed, up to six.
func (m Money) String() string {
	for digits := 2; digits < 6; digits++ {
		s := m.rat.FloatString(digits)
		var back big.Rat
		if back.SetString(s); back.Cmp(&m.rat) == 0 {
			return s
		}
	}
	return m.rat.FloatString(6)
}

// Rounded writes the amount with two decimals, for prices per hour.
func (m Money) Rounded() string { return m.rat.FloatString(2) }

// MarshalText writes String; UnmarshalText reads ParseMoney.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what ParseMoney reads.
func (m *Money) UnmarshalText(text []byte) error {
	parsed, err := ParseMoney(string(text))
	if err == nil {
		*m = parsed
	}
	return err
}
