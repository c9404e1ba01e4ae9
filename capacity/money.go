package capacity

import (
	"cmp"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// USD is the currency of fees given on the command line. EC2 names the currency of each fee.
const USD = "USD"

// Money holds an exact amount with its currency. The zero value is an unknown amount without currency. Compare two
// amounts for equality with ==, for order with Compare.
type Money struct {
	// micros counts millionths of the currency, never negative.
	micros   int64
	currency string
}

const (
	decimals = 6
	micros   = 1_000_000
)

// ParseMoney reads a decimal number such as "12345.67", without sign or exponent, in a currency such as USD ("" if
// unknown). It never rounds: more than six decimals, or more than 9,223,372,036,854, is an error.
func ParseMoney(amount, currency string) (Money, error) {
	units, fraction, _ := strings.Cut(amount, ".")
	if units == "" || strings.Trim(units+fraction, "0123456789") != "" {
		return Money{}, fmt.Errorf("%q is not an amount; write it like 12345.67", amount)
	}

	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals {
		return Money{}, fmt.Errorf("%q has more than %d decimals", amount, decimals)
	}

	value, err := strconv.ParseInt(units+fraction+strings.Repeat("0", decimals-len(fraction)), 10, 64)
	if err != nil {
		return Money{}, fmt.Errorf("%q is too large an amount", amount)
	}

	return Money{value, currency}, nil
}

// Compare returns -1, 0 or 1 as m is less than, equal to or more than other. Amounts in different or unknown currencies
// have no order; comparing them is an error.
func (m Money) Compare(other Money) (int, error) {
	switch {
	case m.currency != other.currency:
		return 0, fmt.Errorf("%s and %s are in different currencies", m, other)
	case m.currency == "":
		return 0, fmt.Errorf("%s and %s are in an unknown currency", m, other)
	}

	return cmp.Compare(m.micros, other.micros), nil
}

// Currency returns EC2's currency code, such as USD; "" if unknown.
func (m Money) Currency() string { return m.currency }

// Amount writes the number with two decimals, or with as many as needed to lose nothing.
func (m Money) Amount() string {
	whole, fraction, _ := strings.Cut(big.NewRat(m.micros, micros).FloatString(decimals), ".")
	return whole + "." + fraction[:2] + strings.TrimRight(fraction[2:], "0")
}

// Grouped writes the amount with thousands separated and its currency, for tables: "21,143.81 USD".
func (m Money) Grouped() string {
	whole, fraction, _ := strings.Cut(m.Amount(), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}

	return strings.TrimSpace(whole + "." + fraction + " " + m.currency)
}

// String writes the amount with its currency, such as "12345.67 USD".
func (m Money) String() string {
	if m.currency == "" {
		return m.Amount()
	}
	return m.Amount() + " " + m.currency
}

// Amount is money in an answer for programs: JSON and CSV have the number, and its currency in a field beside it.
type Amount struct{ Money }

// MarshalText writes the number; nothing for the zero value.
func (a Amount) MarshalText() ([]byte, error) {
	if a == (Amount{}) {
		return nil, nil
	}
	return []byte(a.Amount()), nil
}

// MarshalJSON writes the number; null for the zero value.
func (a Amount) MarshalJSON() ([]byte, error) {
	if a == (Amount{}) {
		return []byte("null"), nil
	}
	return a.MarshalText()
}

// PerHour returns the hourly price of one of count things, to the nearest cent, if m pays for all of them for d. It is
// zero if count or d is zero.
func (m Money) PerHour(count int, d time.Duration) Money {
	thingHours := new(big.Int).Mul(big.NewInt(int64(count)), big.NewInt(int64(d)))
	return m.share(int64(time.Hour), thingHours)
}

// share returns m times n divided by whole, to the nearest cent; zero if that is no share.
func (m Money) share(n int64, whole *big.Int) Money {
	if n < 0 || whole.Sign() < 1 {
		return Money{}
	}

	part := new(big.Rat).Mul(big.NewRat(m.micros, micros), new(big.Rat).SetFrac(big.NewInt(n), whole))

	rounded, err := ParseMoney(part.FloatString(2), m.currency)
	if err != nil { // too large an amount
		return Money{}
	}

	return rounded
}

// Add returns the sum. Adding the zero value changes nothing.
func (m Money) Add(other Money) Money {
	if m.currency == "" {
		m.currency = other.currency
	}
	return Money{m.micros + other.micros, m.currency}
}

// Part returns the cost of n of total things that m pays for, to the nearest cent; zero if total is zero.
func (m Money) Part(n, total int64) Money { return m.share(n, big.NewInt(total)) }

// MarshalText writes String's form; nothing for the zero value.
func (m Money) MarshalText() ([]byte, error) {
	if m == (Money{}) {
		return nil, nil
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *Money) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*m = Money{}
		return nil
	}

	amount, currency, _ := strings.Cut(string(text), " ")

	parsed, err := ParseMoney(amount, currency)
	if err == nil {
		*m = parsed
	}

	return err
}
