package userdata

import (
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
)

// Make returns the user data, as text. The error says what is wrong with the user's part.
func Make(n *Node) (string, error) {
	switch n.Family.Name {
	case family.AL2023:
		return al2023(n)
	case family.AL2:
		return al2(n)
	case family.Bottlerocket:
		return bottlerocket(n)
	case family.Custom:
		return n.Custom, nil
	default:
		return windows(n)
	}
}
