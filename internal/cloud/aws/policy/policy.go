// Package policy holds what an AWS account must allow the controller: the operations that
// it calls, on no more than what it made, which its tags show. The managed policies for an
// account, deploy/aws and docs/reference/iam.md all follow from it, as tests assert; another
// test, of the provider, asserts that the operations are those that its code calls.
//
// Read policy.go (what a policy is), then statements.go (which there are).
package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// DocumentMost is how many characters a managed policy may have, blanks aside.
const DocumentMost = 6144

// Params say where policies hold. Values may be placeholders of a template.
type Params struct {
	// Partition is "aws", "aws-cn" or "aws-us-gov".
	Partition, Region, Account string
	// Cluster is the name of the EKS cluster.
	Cluster string
	// NodeRole is the name of the role that instances have.
	NodeRole string
	// Queue is the name of the interruption queue.
	Queue string
}

// Policy is a managed policy. There are several since each has a largest size.
type Policy struct {
	// Name is one word: what it is about.
	Name     string
	Document Document
}

// Document is what IAM takes as JSON.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement allows actions on resources.
type Statement struct {
	Sid      string
	Effect   string
	Action   []string
	Resource []string
	// Condition is by operator and key; all must hold.
	Condition map[string]map[string][]string `json:",omitempty"`
}

// JSON returns the document in lines.
func (d *Document) JSON() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		panic("policy: " + err.Error()) // strings alone
	}
	return b.String()
}

// Size returns how many characters IAM counts.
func (d *Document) Size() int {
	return len(strings.Join(strings.Fields(d.JSON()), ""))
}

// Actions returns all actions that policies allow, in order.
func Actions(policies []Policy) []string {
	var out []string
	for i := range policies {
		for j := range policies[i].Document.Statement {
			out = append(out, policies[i].Document.Statement[j].Action...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
