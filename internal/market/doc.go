// Package market is the use case of finding and buying capacity.
//
//   - Search asks for blocks for sale, in one region or several, and for alternatives
//     instead; FitQuestion asks first whether there is a reservation already.
//   - Buyer buys blocks and extensions, each at most once (R3). Each purchase is
//     an Intent, on disk before the call is sent. The call is sent a single time, and as
//     long as the outcome of an earlier run is not known, nothing is bought.
//
// It knows no command line and no terminal: it takes plain parameters, reports its progress to a
// Teller, and returns its findings. Errors of the caller, not of AWS, are a Mistake. Its messages
// name the flags of pcs-capacity.
package market
