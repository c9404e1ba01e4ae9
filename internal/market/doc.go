// Package market is the use case of finding and buying capacity.
//
//   - Search asks what is for sale, in one region or several, and what would be for sale
//     instead; FitQuestion asks first whether there is a reservation already.
//   - Buyer buys blocks and extensions, each at most once (R3). What it is about to buy is
//     an Intent, on disk before the call is sent; the call is sent a single time; and as
//     long as the outcome of an earlier run is not known, nothing is bought.
//
// It knows no command line and no terminal: it takes plain parameters, tells a Teller how
// far it is, and returns what it found. Errors that are the caller's own, not AWS's, are
// a Mistake. Its words name the flags of pcs-capacity, for whom it speaks.
package market
