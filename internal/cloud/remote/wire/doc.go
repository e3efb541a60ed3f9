// Package wire translates between the values of the provider seam and the messages of the protocol
// (api/provider/v1), in both directions. What comes from a provider is not trusted: every function
// that reads a message checks names, numbers and sizes, and its error says what is wrong where.
//
// Read check.go (what is checked), label.go, catalog.go, launch.go and describe.go.
package wire
