// Package condition keeps the conditions of NodePools and NodeClaims: it reads
// them, changes them, and computes the root condition Ready from those it
// depends on.
//
// There is no clock and no client here: the caller says what time it is and
// writes the object. Every method that changes conditions reports whether the
// object must be written.
package condition
